package io.lancewood.spark;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table that is read in columns, and in all else is what Python's source makes of it. */
final class LanceTable extends ReadTable implements SupportsWrite {
  private final Table python;

  LanceTable(PlannedRead plan, Table python) {
    super(plan);
    this.python = python;
  }

  @Override
  public Set capabilities() {
    return python.capabilities();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new Builder(plan, (SupportsRead) python, options);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return ((SupportsWrite) python).newWriteBuilder(info);
  }

  private static final class Builder extends ReadBuilder {
    private final SupportsRead python;
    private final CaseInsensitiveStringMap options;

    Builder(PlannedRead plan, SupportsRead python, CaseInsensitiveStringMap options) {
      super(plan);
      this.python = python;
      this.options = options;
    }

    @Override
    Scan scan(
        PlannedRead plan, StructType columns, String condition, long limit, Set read) {
      return new StreamedScan(plan, columns, condition, limit, read, python, options);
    }
  }

  /** A scan that may turn out to be one of a stream, whose batches Python's source reads. */
  private static final class StreamedScan extends ReadScan {
    private final SupportsRead python;
    private final CaseInsensitiveStringMap options;
    private boolean isStreamed;

    StreamedScan(
        PlannedRead plan,
        StructType columns,
        String condition,
        long limit,
        Set read,
        SupportsRead python,
        CaseInsensitiveStringMap options) {
      super(plan, columns, condition, limit, read);
      this.python = python;
      this.options = options;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      isStreamed = true;
      return python.newScanBuilder(options).build().toMicroBatchStream(checkpoint);
    }

    @Override
    public Scan.ColumnarSupportMode columnarSupportMode() {
      return isStreamed
          ? Scan.ColumnarSupportMode.PARTITION_DEFINED
          : super.columnarSupportMode();
    }
  }
}
