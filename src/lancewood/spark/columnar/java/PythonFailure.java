package io.lancewood.spark;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.QueryContext;
import org.apache.spark.api.python.PythonException;
import org.apache.spark.api.python.PythonUtils;

/**
 * An exception that a worker raised, as Spark's own workers have it, so that PySpark makes its
 * PythonException of it. Newer Sparks know that by the condition, older ones by the stack. What an
 * error of Lancewood's says stands before its stack.
 */
final class PythonFailure {
  private static final String CONDITION = "PYTHON_EXCEPTION";
  private static final String MESSAGE =
      "An exception was thrown from the Python worker. Please see the stack trace below.";
  private static final StackTraceElement MARK =
      new StackTraceElement("org.apache.spark.sql.execution.python.lancewood", "read", null, -1);

  private PythonFailure() {}

  /** {@code sentence} is null for an exception that is none of Lancewood's. */
  static RuntimeException of(String sentence, String traceback) {
    RuntimeException made = make(sentence, traceback);
    StackTraceElement[] stack = made.getStackTrace();
    StackTraceElement[] marked = new StackTraceElement[stack.length + 1];
    System.arraycopy(stack, 0, marked, 0, stack.length);
    marked[stack.length] = MARK;
    made.setStackTrace(marked);
    return made;
  }

  private static RuntimeException make(String sentence, String traceback) {
    String text = sentence == null ? traceback : sentence + "\n\n" + traceback;
    Constructor[] known = PythonException.class.getConstructors();
    for (int i = 0; i < known.length; i++) {
      Class[] types = known[i].getParameterTypes();
      try {
        if (types.length == 2) {
          return (RuntimeException) known[i].newInstance(new Object[] {text, null});
        }
        if (types.length == 5 && types[2] == Throwable.class) {
          Map said = new HashMap();
          said.put("msg", sentence == null ? MESSAGE : sentence);
          said.put("traceback", "\n" + traceback);
          Object parameters = PythonUtils.toScalaMap(said);
          Object[] given = {CONDITION, parameters, null, new QueryContext[0], lastDefault()};
          return (RuntimeException) known[i].newInstance(given);
        }
      } catch (ReflectiveOperationException another) {
        continue;
      }
    }
    return new RuntimeException(text);
  }

  private static Object lastDefault() throws ReflectiveOperationException {
    Method found = PythonException.class.getMethod("$lessinit$greater$default$5", new Class[0]);
    return found.invoke(null, new Object[0]);
  }
}
