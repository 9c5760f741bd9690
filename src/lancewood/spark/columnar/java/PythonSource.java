package io.lancewood.spark;

import org.apache.spark.sql.connector.catalog.TableProvider;

/**
 * Spark's own source that runs Python, for what this one does not do itself. It is internal to
 * Spark and not in every release: this is the one place that knows it, by its name.
 */
final class PythonSource {
  private static final String CLASS =
      "org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2";

  private PythonSource() {}

  /** A new one of a short name; null where Spark has none. */
  static TableProvider named(String name) {
    try {
      Class found = Class.forName(CLASS, true, TableProvider.class.getClassLoader());
      Object made = found.getConstructor(new Class[0]).newInstance(new Object[0]);
      found.getMethod("setShortName", new Class[] {String.class}).invoke(made, new Object[] {name});
      return (TableProvider) made;
    } catch (ReflectiveOperationException missing) {
      return null;
    }
  }
}
