package io.lancewood.spark;

import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("lance")}: a table is read in columns, if a worker on the driver can plan that from
 * the options; everything else is left to Python's source of the same name.
 *
 * <p>The version is found when the schema is asked for, and kept by the table that is made next.
 * Who brings a schema of their own, or writes, does not ask.
 */
public class Lance implements TableProvider, DataSourceRegister {
  private static final String NAME = "lance";
  private static final String PYTHON =
      "org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2";
  private static final String SETTING = "spark.lancewood.columnar";
  /** What turns it off; {@code columnar/door.py} has the same. */
  private static final List OFF = Arrays.asList(new String[] {"0", "false", "no", "off"});
  private static final String REGISTER =
      "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister";
  private static final boolean IS_NAME_TAKEN = isNameTaken();

  private final TableProvider python = pythonSource();
  private PlannedRead plan;

  /** The name that people know, unless there is another source of that name. */
  @Override
  public String shortName() {
    return IS_NAME_TAKEN ? Lance.class.getName() : NAME;
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap properties) {
    Map options = EntryTable.options(properties.asCaseSensitiveMap());
    plan = isOff() ? null : planned(options);
    return plan == null
        ? python().inferSchema(new CaseInsensitiveStringMap(options))
        : plan.schema;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    if (python != null && EntryTable.isOne(properties)) {
      return entry(schema, partitioning, EntryTable.options(properties));
    }
    Table other = python == null ? null : python.getTable(schema, partitioning, properties);
    if (plan == null) {
      return other == null ? python().getTable(schema, partitioning, properties) : other;
    }
    return new ReadTable(plan, other);
  }

  /** What an entry of Spark's catalog names, as it is now, whatever columns the entry remembers. */
  private Table entry(StructType remembered, Transform[] partitioning, Map options) {
    EntryTable.checkNotBeingMade();
    plan = isOff() ? null : planned(options);
    StructType schema = plan == null ? remembered : plan.schema;
    Table other = python.getTable(schema, partitioning, options);
    return new EntryTable(plan == null ? other : new ReadTable(plan, other), other, options);
  }

  /** Whether another source of this Spark's is called lance; the name of its class tells. */
  private static boolean isNameTaken() {
    String ours = Lance.class.getName().toLowerCase(Locale.ROOT);
    try {
      Enumeration files = Thread.currentThread().getContextClassLoader().getResources(REGISTER);
      while (files.hasMoreElements()) {
        InputStream in = ((URL) files.nextElement()).openStream();
        try {
          String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
          if (text.toLowerCase(Locale.ROOT).replace(ours, "").contains(NAME)) {
            return true;
          }
        } finally {
          in.close();
        }
      }
      return false;
    } catch (IOException unknown) {
      return true;
    }
  }

  private static boolean isOff() {
    return OFF.contains(SQLConf.get().getConfString(SETTING, "").toLowerCase(Locale.ROOT));
  }

  private TableProvider python() {
    if (python == null) {
      throw new UnsupportedOperationException(
          "this Spark has no sources in Python: use lancewood.spark.read and lancewood.spark.write");
    }
    return python;
  }

  /** The read that options describe; null if Python's source is to do it, or to say what is wrong. */
  private PlannedRead planned(Map options) {
    WorkerPool pool = WorkerPool.of(PythonCommand.ofThisSpark());
    Worker worker = null;
    boolean isSound = false;
    try {
      worker = pool.take();
      request(worker.out, options);
      PlannedRead found = answer(worker);
      isSound = true;
      return found;
    } catch (IOException failed) {
      if (python == null) {
        throw new IllegalStateException(failed);
      }
      return null;
    } finally {
      if (isSound) {
        pool.give(worker);
      } else if (worker != null) {
        pool.drop(worker);
      }
    }
  }

  private static void request(DataOutputStream out, Map options) throws IOException {
    String[] names = (String[]) options.keySet().toArray(new String[0]);
    String[] values = new String[names.length];
    for (int i = 0; i < names.length; i++) {
      values[i] = (String) options.get(names[i]);
    }
    out.write(Protocol.PLAN);
    Protocol.writeTexts(out, names);
    Protocol.writeTexts(out, values);
    out.writeInt(SparkContext.getOrCreate().defaultParallelism());
    out.flush();
  }

  private PlannedRead answer(Worker worker) throws IOException {
    int kind = worker.in.readInt();
    if (kind == Protocol.PLANNED) {
      return PlannedRead.decode(Protocol.readBytes(worker.in));
    }
    if (kind == Protocol.ERROR) {
      RuntimeException failure = worker.readError();
      if (python == null) {
        throw failure;
      }
    }
    return null;
  }

  /** Spark's own source that runs Python, which is internal to it; null where it has none. */
  private static TableProvider pythonSource() {
    try {
      Class found = Class.forName(PYTHON, true, TableProvider.class.getClassLoader());
      Object made = found.getConstructor(new Class[0]).newInstance(new Object[0]);
      found.getMethod("setShortName", new Class[] {String.class}).invoke(made, new Object[] {NAME});
      return (TableProvider) made;
    } catch (ReflectiveOperationException missing) {
      return null;
    }
  }
}
