package io.lancewood.spark;

import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One version of a table, read in columns; in all else it is what another source makes of it. */
final class ReadTable implements SupportsRead, SupportsWrite {
  private final PlannedRead plan;
  private final Table other;

  /** A table that is only read. */
  ReadTable(PlannedRead plan) {
    this(plan, null);
  }

  ReadTable(PlannedRead plan, Table other) {
    this.plan = plan;
    this.other = other;
  }

  @Override
  public String name() {
    return plan.name;
  }

  @Override
  public StructType schema() {
    return plan.schema;
  }

  @Override
  public Set capabilities() {
    return other == null ? EnumSet.of(TableCapability.BATCH_READ) : other.capabilities();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    ScanBuilder streamed = other == null ? null : ((SupportsRead) other).newScanBuilder(options);
    return new ReadBuilder(plan, streamed);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return ((SupportsWrite) other).newWriteBuilder(info);
  }
}
