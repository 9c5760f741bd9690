package io.lancewood.spark;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table that Spark's own catalog has an entry of. Spark gives the options of the entry, its path
 * among them, once for all, and not again to those who read or write it.
 */
final class EntryTable implements Table, SupportsRead, SupportsWrite {
  private static final String CATALOG =
      "org.apache.spark.sql.execution.datasources.v2.V2SessionCatalog";
  private static final String PATH = "path";
  private static final String PREFIX = "option.";

  private final Table read;
  private final Table python;
  private final Map options;

  /** What is read, what is written, and the options for both. */
  EntryTable(Table read, Table python, Map options) {
    this.read = read;
    this.python = python;
    this.options = options;
  }

  /** Whether properties are those of an entry. */
  static boolean isOne(Map properties) {
    return properties.containsKey(TableCatalog.PROP_PROVIDER);
  }

  /** The options among properties; what is no entry has only options. */
  static Map options(Map properties) {
    if (!isOne(properties)) {
      return properties;
    }
    Map found = new HashMap();
    for (Iterator each = properties.keySet().iterator(); each.hasNext(); ) {
      String name = (String) each.next();
      if (name.startsWith(PREFIX) && !name.equalsIgnoreCase(PREFIX + PATH)) {
        found.put(name.substring(PREFIX.length()), properties.get(name));
      }
    }
    if (properties.containsKey(PATH)) {
      found.put(PATH, properties.get(PATH));
    }
    return found;
  }

  /** Refuse to be made by somebody who says the columns: nothing is registered then. */
  static void checkNotBeingMade() {
    StackTraceElement[] stack = new Throwable().getStackTrace();
    for (int i = 0; i < stack.length; i++) {
      if (stack[i].getClassName().equals(CATALOG)) {
        if (stack[i].getMethodName().contains("createTable")) {
          throw new UnsupportedOperationException(
              "Spark's catalog names tables of lance that are there, and makes none: write the rows"
                  + " first, df.write.format(\"lance\").mode(\"append\").save(path), and then say"
                  + " CREATE TABLE name USING lance LOCATION 'path', without columns and without a"
                  + " query. lancewood.spark.sql has a CREATE TABLE that makes one");
        }
        return;
      }
    }
  }

  @Override
  public String name() {
    return read.name();
  }

  @Override
  public StructType schema() {
    return read.schema();
  }

  /** What a catalog tells of it; options may be secrets. */
  @Override
  public Map properties() {
    Map found = new HashMap();
    found.put(TableCatalog.PROP_PROVIDER, "lance");
    found.put(TableCatalog.PROP_EXTERNAL, "true");
    if (options.containsKey(PATH)) {
      found.put(TableCatalog.PROP_LOCATION, options.get(PATH));
    }
    return found;
  }

  @Override
  public Set capabilities() {
    return python.capabilities();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap asked) {
    return ((SupportsRead) read).newScanBuilder(with(asked));
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return ((SupportsWrite) python).newWriteBuilder(new Info(info, with(info.options())));
  }

  private CaseInsensitiveStringMap with(CaseInsensitiveStringMap asked) {
    Map all = new HashMap(options);
    all.putAll(asked.asCaseSensitiveMap());
    return new CaseInsensitiveStringMap(all);
  }

  private static final class Info implements LogicalWriteInfo {
    private final LogicalWriteInfo info;
    private final CaseInsensitiveStringMap options;

    Info(LogicalWriteInfo info, CaseInsensitiveStringMap options) {
      this.info = info;
      this.options = options;
    }

    @Override
    public CaseInsensitiveStringMap options() {
      return options;
    }

    @Override
    public String queryId() {
      return info.queryId();
    }

    @Override
    public StructType schema() {
      return info.schema();
    }
  }
}
