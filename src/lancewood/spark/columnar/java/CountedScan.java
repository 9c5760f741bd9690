package io.lancewood.spark;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** How many rows there are, as the manifest tells it: no task runs. */
final class CountedScan implements LocalScan {
  private final PlannedRead plan;
  private final int counts;

  CountedScan(PlannedRead plan, int counts) {
    this.plan = plan;
    this.counts = counts;
  }

  @Override
  public StructType readSchema() {
    StructType schema = new StructType();
    for (int i = 0; i < counts; i++) {
      schema = schema.add("count_" + i, DataTypes.LongType, false);
    }
    return schema;
  }

  @Override
  public String description() {
    return plan.name + ", counted by its manifest";
  }

  @Override
  public InternalRow[] rows() {
    Object[] values = new Object[counts];
    Arrays.fill(values, Long.valueOf(plan.rows));
    return new InternalRow[] {new GenericInternalRow(values)};
  }
}
