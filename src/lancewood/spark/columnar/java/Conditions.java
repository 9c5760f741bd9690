package io.lancewood.spark;

import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * Spark's predicates as conditions in the table's SQL, where both mean the same.
 *
 * <p>Constants are written exactly, or not at all. NaN is the largest number to both. A predicate
 * that has no such text stays with Spark.
 */
final class Conditions {
  private static final int MOST_NESTING = 24;
  private static final String THERE = " IS NOT NULL)";

  private final PlannedRead plan;
  private final List texts = new ArrayList();
  private final Set compared = new HashSet();
  private int characters;

  Conditions(PlannedRead plan) {
    this.plan = plan;
  }

  /** Add a predicate; false if it has to stay with Spark. */
  boolean add(Predicate predicate) {
    String text = text(predicate, 1);
    if (text == null || characters + text.length() > plan.mostCondition) {
      return false;
    }
    characters += text.length() + " AND ()".length();
    texts.add("(" + text + ")");
    Expression[] parts = predicate.children();
    if (parts.length == 2 && operator(predicate.name()) != null) {
      compared.add(column(parts[parts[0] instanceof Literal ? 1 : 0], true));
    }
    return true;
  }

  /** All of them; null if there are none. What is compared need not be said to be there. */
  String text() {
    List needed = new ArrayList();
    for (int i = 0; i < texts.size(); i++) {
      String text = (String) texts.get(i);
      int end = Math.max(1, text.length() - THERE.length());
      if (!text.endsWith(THERE) || !compared.contains(text.substring(1, end))) {
        needed.add(text);
      }
    }
    return needed.isEmpty() ? null : String.join(" AND ", needed);
  }

  private String text(Expression expression, int nesting) {
    if (!(expression instanceof Predicate) || nesting > MOST_NESTING) {
      return null;
    }
    String name = ((Predicate) expression).name();
    Expression[] parts = expression.children();
    if (name.equals("AND") || name.equals("OR")) {
      List found = new ArrayList();
      return chain(name, expression, nesting, found) ? String.join(" " + name + " ", found) : null;
    }
    if (name.equals("NOT")) {
      String negated = text(parts[0], nesting + 1);
      return negated == null ? null : "NOT (" + negated + ")";
    }
    if (parts.length == 0) {
      return null;
    }
    if (name.equals("IS_NULL") || name.equals("IS_NOT_NULL")) {
      String column = column(parts[0], false);
      return column == null ? null : column + (name.equals("IS_NULL") ? " IS NULL" : " IS NOT NULL");
    }
    if (name.equals("IN")) {
      return member(parts);
    }
    return parts.length == 2 ? comparison(name, parts[0], parts[1]) : null;
  }

  /** The parts of a chain of ANDs or of ORs; false if one of them has no text. */
  private boolean chain(String name, Expression expression, int nesting, List found) {
    Expression[] parts = expression.children();
    for (int i = 0; i < parts.length; i++) {
      if (parts[i] instanceof Predicate && ((Predicate) parts[i]).name().equals(name)) {
        if (!chain(name, parts[i], nesting, found)) {
          return false;
        }
        continue;
      }
      String text = text(parts[i], nesting + 1);
      if (text == null) {
        return false;
      }
      found.add("(" + text + ")");
    }
    return true;
  }

  private String comparison(String name, Expression left, Expression right) {
    if (left instanceof Literal && right instanceof NamedReference) {
      return comparison(flipped(name), right, left);
    }
    String operator = operator(name);
    String column = column(left, true);
    String constant = constant(right);
    if (operator == null || column == null || constant == null) {
      return null;
    }
    return column + " " + operator + " " + constant;
  }

  private String member(Expression[] parts) {
    String column = column(parts[0], true);
    if (column == null || parts.length == 1) {
      return null;
    }
    String[] constants = new String[parts.length - 1];
    for (int i = 1; i < parts.length; i++) {
      constants[i - 1] = constant(parts[i]);
      if (constants[i - 1] == null) {
        return null;
      }
    }
    return column + " IN (" + String.join(", ", constants) + ")";
  }

  private String column(Expression expression, boolean isCompared) {
    if (!(expression instanceof NamedReference)) {
      return null;
    }
    String[] path = ((NamedReference) expression).fieldNames();
    return isCompared && !plan.isComparable(path) ? null : plan.reference(path);
  }

  private static String operator(String name) {
    if (name.equals("<=>")) {
      return "IS NOT DISTINCT FROM";
    }
    boolean isKnown =
        name.equals("=")
            || name.equals("<>")
            || name.equals("<")
            || name.equals("<=")
            || name.equals(">")
            || name.equals(">=");
    return isKnown ? name : null;
  }

  private static String flipped(String name) {
    if (name.startsWith("<") && !name.equals("<>") && !name.equals("<=>")) {
      return ">" + name.substring(1);
    }
    return name.startsWith(">") ? "<" + name.substring(1) : name;
  }

  /** A constant as text that is read as the very same value; null if there is none. */
  private static String constant(Expression expression) {
    if (!(expression instanceof Literal)) {
      return null;
    }
    Object value = ((Literal) expression).value();
    DataType type = ((Literal) expression).dataType();
    if (value == null) {
      return null;
    }
    if (type instanceof LongType
        || type instanceof IntegerType
        || type instanceof ShortType
        || type instanceof ByteType) {
      long number = ((Number) value).longValue();
      return number == Long.MIN_VALUE ? null : Long.toString(number);
    }
    if (type instanceof DoubleType || type instanceof FloatType) {
      double number = ((Number) value).doubleValue();
      return Double.isNaN(number) || Double.isInfinite(number) ? null : Double.toString(number);
    }
    if (type instanceof DecimalType) {
      BigDecimal number =
          value instanceof Decimal ? ((Decimal) value).toJavaBigDecimal() : (BigDecimal) value;
      return number.toPlainString();
    }
    if (type instanceof BooleanType) {
      return ((Boolean) value).booleanValue() ? "TRUE" : "FALSE";
    }
    if (type.equals(DataTypes.StringType)) {
      return quoted(value.toString());
    }
    return moment(value, type);
  }

  /** Characters that stand for bytes which are no text are not handed on. */
  private static String quoted(String text) {
    return text.indexOf('\ufffd') >= 0 || text.indexOf('\0') >= 0
        ? null
        : "'" + text.replace("'", "''") + "'";
  }

  private static String moment(Object value, DataType type) {
    if (type instanceof DateType) {
      LocalDate day = LocalDate.ofEpochDay(((Number) value).longValue());
      return isWritten(day) ? "'" + day + "'" : null;
    }
    if (!(type instanceof TimestampType || type instanceof TimestampNTZType)) {
      return null;
    }
    Instant instant = Instant.EPOCH.plus(((Number) value).longValue(), ChronoUnit.MICROS);
    LocalDateTime time = LocalDateTime.ofInstant(instant, ZoneOffset.UTC);
    if (!isWritten(time.toLocalDate())) {
      return null;
    }
    String zone = type instanceof TimestampType ? "Z" : "";
    return "'" + time.toLocalDate() + " " + time.toLocalTime() + zone + "'";
  }

  /** Whether its year has four digits. */
  private static boolean isWritten(LocalDate day) {
    return day.getYear() >= 1 && day.getYear() <= 9999;
  }
}
