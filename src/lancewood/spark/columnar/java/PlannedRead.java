package io.lancewood.spark;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * A read as Python planned it on the driver: one version of a table, cut into messages for tasks.
 *
 * <p>What Python pickled is opaque here, and has the storage options inside: nothing of this is
 * shown but the name.
 */
final class PlannedRead {
  static final String PATH_SEPARATOR = "\n";

  final String name;
  final StructType schema;
  final byte[] work;
  final byte[][] messages;
  /** The rows of all messages before any filter; -1 if unknown. */
  final long rows;
  /** Whether that is how many there are. */
  final boolean isCounted;
  /** The fragments that no task reads, because none of their rows meets the reader's condition. */
  final long pruned;
  final int slots;
  /** The bytes that make a task worth starting. */
  final long worthwhile;
  /** How many characters a condition may have. */
  final int mostCondition;
  final PythonCommand python;
  /** The columns that are read whatever a query selects. */
  final String[] needed;
  private final Map widths = new HashMap();
  private final Map references = new HashMap();
  private final Map comparable = new HashMap();

  private PlannedRead(DataInputStream in) throws IOException {
    name = Protocol.readText(in);
    schema = (StructType) DataType.fromJson(Protocol.readText(in));
    work = Protocol.readBytes(in);
    messages = Protocol.readMany(in);
    rows = in.readLong();
    isCounted = in.readBoolean();
    pruned = in.readLong();
    slots = in.readInt();
    worthwhile = in.readLong();
    mostCondition = in.readInt();
    python = PythonCommand.decode(in);
    for (int left = in.readInt(); left > 0; left--) {
      widths.put(Protocol.readText(in), Double.valueOf(in.readDouble()));
    }
    needed = Protocol.readTexts(in);
    for (int left = in.readInt(); left > 0; left--) {
      String path = Protocol.readText(in);
      references.put(path, Protocol.readText(in));
      comparable.put(path, Boolean.valueOf(in.readBoolean()));
    }
  }

  static PlannedRead decode(byte[] encoded) {
    try {
      return new PlannedRead(new DataInputStream(new ByteArrayInputStream(encoded)));
    } catch (IOException broken) {
      throw new IllegalStateException(broken);
    }
  }

  /** What a condition calls a column or a field below it; null if it cannot be in one. */
  String reference(String[] path) {
    return (String) references.get(String.join(PATH_SEPARATOR, path));
  }

  /** Whether its values may be compared with constants, besides being null or not. */
  boolean isComparable(String[] path) {
    Boolean found = (Boolean) comparable.get(String.join(PATH_SEPARATOR, path));
    return found != null && found.booleanValue();
  }

  /** Bytes of a column in all rows. */
  double bytes(String column) {
    Double width = (Double) widths.get(column);
    return rows * (width == null ? 0.0 : width.doubleValue());
  }

  /** The estimated bytes in memory of some columns of all rows; -1 if unknown. */
  long bytes(StructType columns) {
    if (rows < 0) {
      return -1;
    }
    double found = 0;
    StructField[] fields = columns.fields();
    for (int i = 0; i < fields.length; i++) {
      found += bytes(fields[i].name());
    }
    // Spark takes 0 for a table that is free to copy.
    return Math.max((long) found, Math.max(rows, 1));
  }
}
