package io.lancewood.spark;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column over memory in Arrow's layout; the addresses are set anew for every batch.
 *
 * <p>The layouts are those that Python's {@code Reading} makes: one for each type of Spark's, with
 * 32-bit offsets, except that a list may have a fixed size.
 */
abstract class Column extends ColumnVector {
  int nulls;
  long validity;
  long data;

  Column(DataType type) {
    super(type);
  }

  /** A column of a type; null if there is none. */
  static Column of(DataType type) {
    if (type instanceof LongType
        || type instanceof TimestampType
        || type instanceof TimestampNTZType
        || type instanceof DayTimeIntervalType
        || isTime(type)) {
      return new Longs(type);
    }
    if (type instanceof IntegerType || type instanceof DateType) {
      return new Ints(type);
    }
    if (type instanceof DoubleType) {
      return new Doubles(type);
    }
    if (type instanceof FloatType) {
      return new Floats(type);
    }
    if (type instanceof ShortType) {
      return new Shorts(type);
    }
    if (type instanceof ByteType) {
      return new Bytes(type);
    }
    if (type instanceof BooleanType) {
      return new Booleans(type);
    }
    if (type instanceof StringType || type instanceof BinaryType) {
      return new Texts(type);
    }
    if (type instanceof DecimalType) {
      return new Decimals(type);
    }
    if (type instanceof NullType) {
      return new Nulls(type);
    }
    return ofNested(type);
  }

  private static Column ofNested(DataType type) {
    if (type instanceof ArrayType) {
      Column element = of(((ArrayType) type).elementType());
      return element == null ? null : new Lists(type, element);
    }
    if (type instanceof MapType) {
      Column key = of(((MapType) type).keyType());
      Column value = of(((MapType) type).valueType());
      return key == null || value == null ? null : new Maps(type, key, value);
    }
    if (type instanceof StructType) {
      Column[] fields = ofEach((StructType) type);
      return fields == null ? null : new Structs(type, fields);
    }
    return null;
  }

  /** A column for each field; null if there is none for one of them. */
  static Column[] ofEach(StructType type) {
    StructField[] fields = type.fields();
    Column[] found = new Column[fields.length];
    for (int i = 0; i < fields.length; i++) {
      found[i] = of(fields[i].dataType());
      if (found[i] == null) {
        return null;
      }
    }
    return found;
  }

  /** By its name, because not every Spark has the class. */
  private static boolean isTime(DataType type) {
    return type.getClass().getName().equals("org.apache.spark.sql.types.TimeType");
  }

  /** Point to the next array of the batch, and those below to theirs. */
  void set(RecordBatchMessage batch) {
    nulls = batch.nextNulls();
    validity = batch.nextBuffer();
    setData(batch);
  }

  void setData(RecordBatchMessage batch) {
    data = batch.nextBuffer();
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return nulls != 0;
  }

  @Override
  public int numNulls() {
    return nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    return nulls != 0 && (Platform.getByte(null, validity + (row >> 3)) >> (row & 7) & 1) == 0;
  }

  @Override
  public boolean getBoolean(int row) {
    throw another();
  }

  @Override
  public byte getByte(int row) {
    throw another();
  }

  @Override
  public short getShort(int row) {
    throw another();
  }

  @Override
  public int getInt(int row) {
    throw another();
  }

  @Override
  public long getLong(int row) {
    throw another();
  }

  @Override
  public float getFloat(int row) {
    throw another();
  }

  @Override
  public double getDouble(int row) {
    throw another();
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw another();
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw another();
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw another();
  }

  @Override
  public UTF8String getUTF8String(int row) {
    throw another();
  }

  @Override
  public byte[] getBinary(int row) {
    throw another();
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw another();
  }

  private RuntimeException another() {
    return new UnsupportedOperationException("a column of type " + type.simpleString());
  }

  static final class Nulls extends Column {
    Nulls(DataType type) {
      super(type);
    }

    /** Arrow has no buffers for it. */
    @Override
    void set(RecordBatchMessage batch) {
      batch.nextNulls();
      nulls = batch.rows;
    }

    @Override
    public boolean isNullAt(int row) {
      return true;
    }
  }

  static final class Booleans extends Column {
    Booleans(DataType type) {
      super(type);
    }

    @Override
    public boolean getBoolean(int row) {
      return (Platform.getByte(null, data + (row >> 3)) >> (row & 7) & 1) != 0;
    }
  }

  static final class Bytes extends Column {
    Bytes(DataType type) {
      super(type);
    }

    @Override
    public byte getByte(int row) {
      return Platform.getByte(null, data + row);
    }
  }

  static final class Shorts extends Column {
    Shorts(DataType type) {
      super(type);
    }

    @Override
    public short getShort(int row) {
      return Platform.getShort(null, data + 2L * row);
    }
  }

  static final class Ints extends Column {
    Ints(DataType type) {
      super(type);
    }

    @Override
    public int getInt(int row) {
      return Platform.getInt(null, data + 4L * row);
    }
  }

  static final class Longs extends Column {
    Longs(DataType type) {
      super(type);
    }

    @Override
    public long getLong(int row) {
      return Platform.getLong(null, data + 8L * row);
    }
  }

  static final class Floats extends Column {
    Floats(DataType type) {
      super(type);
    }

    @Override
    public float getFloat(int row) {
      return Platform.getFloat(null, data + 4L * row);
    }

    @Override
    public float[] getFloats(int row, int count) {
      float[] found = new float[count];
      Platform.copyMemory(
          null, data + 4L * row, found, Platform.FLOAT_ARRAY_OFFSET, 4L * count);
      return found;
    }
  }

  static final class Doubles extends Column {
    Doubles(DataType type) {
      super(type);
    }

    @Override
    public double getDouble(int row) {
      return Platform.getDouble(null, data + 8L * row);
    }

    @Override
    public double[] getDoubles(int row, int count) {
      double[] found = new double[count];
      Platform.copyMemory(
          null, data + 8L * row, found, Platform.DOUBLE_ARRAY_OFFSET, 8L * count);
      return found;
    }
  }

  static final class Decimals extends Column {
    private static final int SIZE = 16;

    Decimals(DataType type) {
      super(type);
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
      if (isNullAt(row)) {
        return null;
      }
      long value = data + SIZE * (long) row;
      if (precision <= Decimal.MAX_LONG_DIGITS()) {
        return Decimal.createUnsafe(Platform.getLong(null, value), precision, scale);
      }
      byte[] bytes = new byte[SIZE];
      for (int i = 0; i < SIZE; i++) {
        bytes[SIZE - 1 - i] = Platform.getByte(null, value + i);
      }
      return Decimal.apply(new BigDecimal(new BigInteger(bytes), scale), precision, scale);
    }
  }

  /** Texts and bytes. A text is not copied: it is good until the next batch. */
  static final class Texts extends Column {
    private long characters;

    Texts(DataType type) {
      super(type);
    }

    @Override
    void setData(RecordBatchMessage batch) {
      data = batch.nextBuffer();
      characters = batch.nextBuffer();
    }

    @Override
    public UTF8String getUTF8String(int row) {
      if (isNullAt(row)) {
        return null;
      }
      int start = Platform.getInt(null, data + 4L * row);
      int stop = Platform.getInt(null, data + 4L * row + 4);
      return UTF8String.fromAddress(null, characters + start, stop - start);
    }

    @Override
    public byte[] getBinary(int row) {
      if (isNullAt(row)) {
        return null;
      }
      int start = Platform.getInt(null, data + 4L * row);
      int stop = Platform.getInt(null, data + 4L * row + 4);
      byte[] found = new byte[stop - start];
      Platform.copyMemory(
          null, characters + start, found, Platform.BYTE_ARRAY_OFFSET, found.length);
      return found;
    }
  }

  static final class Lists extends Column {
    private final Column element;
    private int size;

    Lists(DataType type, Column element) {
      super(type);
      this.element = element;
    }

    @Override
    void setData(RecordBatchMessage batch) {
      size = batch.nextListSize();
      if (size < 0) {
        data = batch.nextBuffer();
      }
      element.set(batch);
    }

    @Override
    public ColumnarArray getArray(int row) {
      if (isNullAt(row)) {
        return null;
      }
      if (size >= 0) {
        return new ColumnarArray(element, row * size, size);
      }
      int start = Platform.getInt(null, data + 4L * row);
      return new ColumnarArray(element, start, Platform.getInt(null, data + 4L * row + 4) - start);
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return element;
    }
  }

  /** In Arrow, lists of structs of a key and a value. */
  static final class Maps extends Column {
    private final Column key;
    private final Column value;

    Maps(DataType type, Column key, Column value) {
      super(type);
      this.key = key;
      this.value = value;
    }

    @Override
    void setData(RecordBatchMessage batch) {
      data = batch.nextBuffer();
      batch.nextNulls();
      batch.nextBuffer();
      key.set(batch);
      value.set(batch);
    }

    @Override
    public ColumnarMap getMap(int row) {
      if (isNullAt(row)) {
        return null;
      }
      int start = Platform.getInt(null, data + 4L * row);
      int count = Platform.getInt(null, data + 4L * row + 4) - start;
      return new ColumnarMap(key, value, start, count);
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return ordinal == 0 ? key : value;
    }
  }

  static final class Structs extends Column {
    private final Column[] fields;

    Structs(DataType type, Column[] fields) {
      super(type);
      this.fields = fields;
    }

    @Override
    void setData(RecordBatchMessage batch) {
      for (int i = 0; i < fields.length; i++) {
        fields[i].set(batch);
      }
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return fields[ordinal];
    }
  }
}
