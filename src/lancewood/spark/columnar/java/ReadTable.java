package io.lancewood.spark;

import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One version of a table, to be read. */
class ReadTable implements Table, SupportsRead {
  final PlannedRead plan;

  ReadTable(PlannedRead plan) {
    this.plan = plan;
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
    return EnumSet.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new ReadBuilder(plan);
  }
}
