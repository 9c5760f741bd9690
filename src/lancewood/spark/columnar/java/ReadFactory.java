package io.lancewood.spark;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;

/** What all tasks of a scan share, on its way to them. */
final class ReadFactory implements PartitionReaderFactory {
  final PythonCommand python;
  final byte[] work;
  final StructType columns;
  final String condition;
  final long limit;

  ReadFactory(
      PythonCommand python, byte[] work, StructType columns, String condition, long limit) {
    this.python = python;
    this.work = work;
    this.columns = columns;
    this.condition = condition;
    this.limit = limit;
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader createReader(InputPartition partition) {
    throw new UnsupportedOperationException("rows one by one");
  }

  @Override
  public PartitionReader createColumnarReader(InputPartition partition) {
    return new BatchReader(this, ((Portion) partition).messages);
  }

  /** What one task reads: messages of the plan. */
  static final class Portion implements InputPartition {
    final byte[][] messages;

    Portion(byte[][] messages) {
      this.messages = messages;
    }
  }
}
