package io.lancewood.spark;

import java.io.DataInputStream;
import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkFiles;
import org.apache.spark.api.python.PythonUtils;
import scala.Tuple2;

/**
 * Which Python reads tables, and in which environment: the one that Spark would start for its own
 * workers. The environment may hold secrets, so this has no text of its own.
 */
final class PythonCommand implements Serializable {
  private static final String PATH = "PYTHONPATH";
  private static final String EXECUTOR = "spark.executorEnv.";

  /** What the driver's own Python said of itself, where there is one. */
  static volatile PythonCommand ofDriver;

  private final String executable;
  private final String[] names;
  private final String[] values;
  private final String[] includes;

  PythonCommand(String executable, String[] names, String[] values, String[] includes) {
    this.executable = executable;
    this.names = names;
    this.values = values;
    this.includes = includes;
  }

  /** As the driver wrote it; without an executable it is the one that this Spark would take. */
  static PythonCommand decode(DataInputStream in) throws IOException {
    String executable = Protocol.readText(in);
    String[] names = Protocol.readTexts(in);
    String[] values = Protocol.readTexts(in);
    String[] includes = Protocol.readTexts(in);
    return executable == null ? ofThisSpark() : new PythonCommand(executable, names, values, includes);
  }

  /** The one of this driver's Python; without one, as Spark Connect starts its own. */
  static PythonCommand ofThisSpark() {
    if (ofDriver != null) {
      return ofDriver;
    }
    SparkConf conf = SparkContext.getOrCreate().getConf();
    String fallback = System.getenv("PYSPARK_DRIVER_PYTHON");
    String common = System.getenv("PYSPARK_PYTHON");
    String executable = common != null ? common : fallback != null ? fallback : "python3";
    List names = new ArrayList();
    List values = new ArrayList();
    Tuple2[] settings = conf.getAll();
    for (int i = 0; i < settings.length; i++) {
      String name = (String) settings[i]._1();
      if (name.startsWith(EXECUTOR)) {
        names.add(name.substring(EXECUTOR.length()));
        values.add(settings[i]._2());
      }
    }
    return new PythonCommand(
        conf.get("spark.pyspark.python", executable),
        (String[]) names.toArray(new String[0]),
        (String[]) values.toArray(new String[0]),
        new String[0]);
  }

  String executable() {
    return executable;
  }

  /** A process of it that runs a module with an argument. */
  ProcessBuilder process(String module, String argument) {
    ProcessBuilder builder =
        new ProcessBuilder(new String[] {executable, "-u", "-m", module, argument});
    Map environment = builder.environment();
    List path = new ArrayList();
    add(path, PythonUtils.sparkPythonPath());
    for (int i = 0; i < names.length; i++) {
      if (names[i].equals(PATH)) {
        add(path, values[i]);
      }
    }
    add(path, (String) environment.get(PATH));
    String root = SparkFiles.getRootDirectory();
    add(path, root);
    for (int i = 0; i < includes.length; i++) {
      add(path, root + File.separator + includes[i]);
    }
    for (int i = 0; i < names.length; i++) {
      environment.put(names[i], values[i]);
    }
    environment.put(PATH, String.join(File.pathSeparator, path));
    return builder;
  }

  private static void add(List path, String more) {
    if (more != null && more.length() > 0) {
      path.add(more);
    }
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof PythonCommand)) {
      return false;
    }
    PythonCommand that = (PythonCommand) other;
    return executable.equals(that.executable)
        && Arrays.equals(names, that.names)
        && Arrays.equals(values, that.values)
        && Arrays.equals(includes, that.includes);
  }

  @Override
  public int hashCode() {
    return executable.hashCode() + 31 * Arrays.hashCode(values) + 37 * Arrays.hashCode(includes);
  }
}
