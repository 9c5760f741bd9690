"""Queries that ask for what every clause, operator and function means.

Spark and DuckDB answer these differently wherever they are asked in the same words; here each has
to be the same in both, or refused by both.
"""

from __future__ import annotations

MEANINGS: list[str] = [
    (
        "SELECT d._change, d.after.k AS k, d.before.label AS l, d._columns AS c FROM "
        "diff('photos', 'v1.0', 'exp') d WHERE _change <> 'updated'"
    ),
    (
        "SELECT id, k / 2 AS h, k % 4 AS r, id div 3 AS d, -id % 3 AS m, (0 - id) div 3 AS dd "
        "FROM photos"
    ),
    (
        "SELECT id, score + 1 AS a, score * 2 AS b, f + 1 AS c, f * 2 AS d, f + score AS e, f * "
        "0.1 AS g, f - small AS hh FROM photos"
    ),
    (
        "SELECT id, price + 1 AS a, price * 2 AS b, price - 0.005 AS c, price * price AS d, price "
        "+ id AS e, k + 0.5 AS f1, k * 1.25 AS g FROM photos"
    ),
    (
        "SELECT small + 250 AS a, small * 2L AS b, small - 251 AS c, id + 9223372036854770000 AS "
        "d FROM photos"
    ),
    "SELECT score, count(*) AS n FROM photos GROUP BY score",
    (
        "SELECT id, array_contains(tags, 'a') AS a, array_contains(tags, 'b') AS b, "
        "array_contains(tags, label) AS c FROM photos"
    ),
    (
        "SELECT p.id, before.box.x AS x, after IS NULL AS gone FROM diff('photos', 1) LEFT JOIN "
        "photos p ON p.id = coalesce(after.id, before.id) WHERE array_contains(_columns, 'k') IS "
        "NOT TRUE"
    ),
    "SELECT DISTINCT f FROM photos",
    "SELECT DISTINCT score + 0 AS s, ok FROM photos",
    (
        "SELECT label, sum(k) AS s, avg(k) AS a, min(label) AS mn, max(taken) AS mx, "
        "count(DISTINCT k) AS c, sum(price) AS p, sum(small) AS q FROM photos GROUP BY label"
    ),
    (
        "SELECT min(score) AS a, max(score) AS b, min(f) AS c, max(f) AS d, max(ok) AS e, "
        "min(moment) AS g, max(clock) AS h, max(raw) AS i FROM photos"
    ),
    "SELECT count(k) AS a, sum(k) AS b, avg(k) AS c FROM photos WHERE id < 0",
    "SELECT label, count(*) AS n FROM photos GROUP BY 1 HAVING n > 1 ORDER BY n DESC, label",
    "SELECT upper(label) AS u, count(*) AS n FROM photos GROUP BY upper(label) ORDER BY u",
    "SELECT id, label FROM photos ORDER BY label, id LIMIT 10",
    "SELECT id, label FROM photos ORDER BY label DESC, id DESC LIMIT 10",
    "SELECT id, score FROM photos ORDER BY score, id LIMIT 20 OFFSET 3",
    "SELECT id FROM photos WHERE moment >= '2024-02-29' AND clock < '2024-02-29 00:00:01'",
    ("SELECT id FROM photos WHERE taken > '2024-02-29' OR taken IN ('2024-02-28', '2024-03-01')"),
    (
        "SELECT id, year(taken) AS y, month(moment) AS m, day(clock) AS d, hour(moment) AS h, "
        "minute(clock) AS mi, second(moment) AS s, quarter(taken) AS q, dayofweek(taken) AS w, "
        "dayofyear(taken) AS dy, weekofyear(taken) AS wy, extract(year FROM moment) AS ey FROM "
        "photos"
    ),
    (
        "SELECT id, date_add(taken, 30) AS a, date_sub(taken, 3) AS b, datediff(taken, DATE "
        "'2024-01-01') AS c, taken + INTERVAL 1 MONTH AS d, moment + INTERVAL 2 HOURS AS e, clock "
        "- INTERVAL 1 DAY AS g, taken + 1 AS h, taken - INTERVAL 1 YEAR AS i FROM photos"
    ),
    (
        "SELECT id, date_trunc('month', moment) AS a, date_trunc('week', clock) AS b, "
        "date_trunc('DAY', taken) AS c, date_trunc('hour', moment) AS d, date_trunc('quarter', "
        "clock) AS e FROM photos"
    ),
    (
        "SELECT id, CAST(f AS DOUBLE) AS a, CAST(price AS DOUBLE) AS b, CAST(price AS INT) AS c, "
        "CAST(price AS DECIMAL(10,1)) AS d, CAST(id AS STRING) AS e, CAST(price AS STRING) AS g, "
        "CAST(ok AS INT) AS h, CAST(k AS BOOLEAN) AS i, CAST(taken AS STRING) AS j, CAST(moment "
        "AS DATE) AS l, CAST(taken AS TIMESTAMP) AS m, CAST(clock AS TIMESTAMP) AS n, CAST(moment "
        "AS TIMESTAMP_NTZ) AS o FROM photos"
    ),
    "SELECT id, CAST(score AS INT) AS a FROM photos WHERE score BETWEEN -10 AND 10",
    (
        "SELECT id, CAST(score * 1.7 AS BIGINT) AS a, CAST(-0.9 AS INT) AS b, CAST(2.5 AS INT) AS "
        "c, CAST(2.5D AS INT) AS d, CAST(-3.7D AS INT) AS e FROM photos WHERE score BETWEEN -10 "
        "AND 10"
    ),
    (
        "SELECT CAST(' 12 ' AS INT) AS a, CAST('1.5' AS DOUBLE) AS b, CAST('2024-02-29' AS DATE) "
        "AS c, CAST('true' AS BOOLEAN) AS d, CAST('1.555' AS DECIMAL(4,2)) AS e, TRY_CAST('x' AS "
        "INT) AS g, TRY_CAST('12' AS INT) AS h, TRY_CAST('99999999999' AS INT) AS i, "
        "CAST('-1.555' AS DECIMAL(4,2)) AS j"
    ),
    (
        "SELECT 0.1 + 0.2 AS a, 1.10 AS b, 0.1D + 0.2D AS c, 1e2 AS d, 3 / 2 AS e, 7 % 3 AS g, -7 "
        "% 3 AS h, -7 div 2 AS i, 2147483647 AS j, 2147483648 AS l, -2147483648 AS m, 5L AS n, 1 "
        "/ 3 AS o, 0.00 AS p"
    ),
    (
        "SELECT round(2.5) AS a, round(-2.5D) AS b, round(2.675D, 2) AS c, round(1.005D, 2) AS d, "
        "round(2.345, 2) AS e, round(1e20D, 2) AS g, round(-0.4D) AS h, ceil(1.2D) AS i, "
        "floor(-1.2D) AS j, ceil(1.25) AS l, floor(-1.25) AS m, round(5) AS n, sqrt(2) AS o, "
        "sqrt(-1) AS p, abs(-5) AS q, abs(-1.5) AS r"
    ),
    (
        "SELECT id, round(score, 1) AS r, round(price, 1) AS p, ceil(price) AS c, floor(price) AS "
        "d FROM photos WHERE NOT isnan(score)"
    ),
    "SELECT round(score, 1) AS r FROM photos",
    (
        "SELECT id, length(label) AS a, lower(label) AS b, label || '!' AS c, concat(label, '-', "
        "id) AS d, substring(label, 1, 2) AS e, substr(label, 2) AS g, trim(concat(' ', label, ' "
        "')) AS h, replace(label, 'o', '00') AS i, startswith(label, 'c') AS j, contains(label, "
        "'o') AS l, endswith(label, 't') AS m, instr(label, 'o') AS n, position('a' IN label) AS "
        "o, length(raw) AS p FROM photos"
    ),
    (
        "SELECT id, label LIKE 'c_t' AS a, label LIKE '%本' AS b, label ILIKE 'DO%' AS c, label "
        "LIKE '_' AS d, label LIKE '50%' AS e FROM photos"
    ),
    (
        "SELECT id, coalesce(k, 0.5) AS a, nvl(label, 'none') AS b, if(ok, 1, 2.5) AS c, CASE "
        "WHEN k > 3 THEN 'big' WHEN k > 1 THEN 'mid' END AS d, CASE k WHEN 1 THEN id ELSE 0 END "
        "AS e, nullif(k, 3) AS g, greatest(k, 2, NULL) AS h, least(score, 1) AS i, ifnull(taken, "
        "DATE '2024-01-01') AS j FROM photos"
    ),
    (
        "SELECT id, k <=> NULL AS a, k IS DISTINCT FROM 3 AS b, isnull(k) AS c, isnotnull(label) "
        "AS d, ok IS NOT TRUE AS e, NOT ok AS g, k NOT IN (1, NULL) AS h FROM photos"
    ),
    (
        "SELECT id, row_number() OVER (PARTITION BY label ORDER BY id) AS a, rank() OVER (ORDER "
        "BY k) AS b, sum(k) OVER (PARTITION BY label ORDER BY id ROWS BETWEEN 1 PRECEDING AND "
        "CURRENT ROW) AS c, lag(k) OVER (ORDER BY id) AS d, count(*) OVER (PARTITION BY score) AS "
        "e, max(k) OVER () AS g, dense_rank() OVER (ORDER BY label DESC) AS h, sum(k) OVER (ORDER "
        "BY k) AS i, lead(k, 2) OVER (ORDER BY id DESC) AS j FROM photos"
    ),
    "SELECT * FROM labels l JOIN photos p USING (k)",
    "SELECT k, label, p.id FROM labels FULL JOIN photos p USING (k, label)",
    "SELECT * FROM labels NATURAL JOIN (SELECT k, id FROM photos@exp WHERE id < 10)",
    "SELECT k, n FROM labels RIGHT JOIN (SELECT k FROM photos) USING (k)",
    "SELECT p.id FROM photos p LEFT ANTI JOIN labels l ON p.k = l.k AND p.id > 20",
    "SELECT p.id FROM photos p LEFT SEMI JOIN labels USING (k) WHERE p.id > 5",
    (
        "SELECT box.x, box.y, p.box.y AS yy, price FROM photos@v1.0 p WHERE price < 1 AND box IS "
        "NOT NULL AND box.x IS NULL"
    ),
    "SELECT extra FROM photos WHERE extra IS NULL OR extra > 2 UNION SELECT n FROM labels@old",
    "SELECT k FROM photos INTERSECT SELECT n FROM labels",
    "SELECT k FROM photos EXCEPT SELECT n FROM labels ORDER BY k DESC LIMIT 2",
    "SELECT k FROM photos EXCEPT ALL SELECT k FROM labels",
    "SELECT k, 0.5 AS x FROM photos UNION ALL SELECT 1.25, n FROM labels ORDER BY 1, 2",
    ("WITH photos AS (SELECT 1 AS x) SELECT extra FROM photos a JOIN photos@main b ON a.x < b.id"),
    (
        "WITH a AS (SELECT k, count(*) AS n FROM photos GROUP BY k), b AS (SELECT max(n) AS m "
        "FROM a) SELECT a.k, a.n FROM a, b WHERE a.n = b.m"
    ),
    "SELECT id FROM photos WHERE k NOT IN (SELECT n FROM labels WHERE n > 1)",
    "SELECT id, (SELECT max(n) FROM labels l WHERE l.k = p.k) AS m FROM photos p",
    (
        "SELECT id FROM photos p WHERE EXISTS (SELECT 1 FROM labels l WHERE l.k = p.k AND l.n > "
        "p.small)"
    ),
    "SELECT id FROM photos WHERE f = 0.1 OR f > 0.1",
    "SELECT id FROM photos WHERE label = 'it''s'",
    "SELECT 'it''s' AS a, \"say\" AS b, 'a' 'b' AS c",
    "SELECT * FROM photos",
    "SELECT p.* FROM photos p WHERE small > 1 ORDER BY id",
    "SELECT * FROM VALUES (1, 'a'), (2, NULL) AS v(x, y)",
    "VALUES (1, 2.5), (2, 3)",
    (
        "SELECT count(*) AS n, count(1) AS m, count_if(k > 2) AS c, bool_and(ok) AS d, "
        "bool_or(ok) AS e, sum(k) FILTER (WHERE ok) AS g FROM photos"
    ),
    "SELECT k AS id, id AS k FROM photos ORDER BY k DESC LIMIT 3",
    "SELECT id + 1 AS a, a * 2 AS b FROM photos",
    "SELECT label, max(id) FROM photos GROUP BY ALL",
    "SELECT label l, k + 1 AS kk FROM photos GROUP BY l, kk",
    (
        "SELECT k + 1 AS z, count(*) FROM photos GROUP BY k HAVING count(*) > 2 AND k + 1 > 1 "
        "ORDER BY count(*), k"
    ),
    "SELECT k AS v, NULL AS x, id FROM photos WHERE NULL IS NULL AND id < 3",
    "SELECT ID, Label FROM Photos WHERE SCORE > 0 ORDER BY Id",
    (
        "SELECT CASE WHEN ok THEN score ELSE 0 END AS a, CASE WHEN ok THEN taken ELSE moment END "
        "AS b FROM photos"
    ),
    "SELECT avg(f) AS a, sum(f) AS b FROM photos WHERE f < 1",
    "SELECT raw, count(*) AS n FROM photos GROUP BY raw ORDER BY raw",
    "SELECT tags, box FROM photos WHERE tags IS NOT NULL",
    "SELECT max(extra) - min(extra) AS d, count(*) * 2 AS n FROM photos",
    "SELECT NULL / 0 AS x",
    "SELECT id FROM photos WHERE moment = clock OR taken = moment",
    "SELECT id FROM photos WHERE price = score OR price > f OR small = price",
    (
        "SELECT TIMESTAMP '2024-02-29 12:00:00+02:00' AS t, TIMESTAMP '2024-01-01' AS u, DATE "
        "'2024-01-01' AS d, TIMESTAMP_NTZ '2024-01-01 10:00:00' AS n"
    ),
    "SELECT t.x, t.y FROM (SELECT k x, id y FROM photos) t WHERE t.x BETWEEN 1 AND 3.5",
    "SELECT 12345678901234567.5 + 0e0 AS a, CAST(12345678901234567.5 AS DOUBLE) AS b",
    "SELECT count(*) AS n, (SELECT count(*) FROM photos@v1.0) AS m FROM photos",
    "SELECT DISTINCT label FROM photos ORDER BY label DESC",
    (
        "SELECT round(1000000000000000.5D) AS a, round(2251799813685248.5D) AS b, "
        "round(-4503599627370495.5D) AS c, round(4503599627370496D) AS d, "
        "round(1125899906842624.25D, 1) AS e, round(9007199254740994D, 2) AS g, "
        "round(562949953421312.25D, 1) AS h, round(0.285D, 2) AS i, round(5e-324, 15) AS j"
    ),
    "SELECT CAST(0.5 AS STRING) AS a, concat('x', 0.25) AS b, 0.000001 || '' AS c",
    (
        "SELECT TRY_CAST(9223372036854775807D AS BIGINT) AS a, CAST(9223372036854775807D AS "
        f"BIGINT) AS b, TRY_CAST('{'0' * 46}5' AS INT) AS c, TRY_CAST('\v13\x7f' AS INT) AS d"
    ),
    (
        "SELECT NULL * 1.5 AS a, NULL div 2 AS b, -NULL AS c, NULL - NULL AS d, 1.5 + 1L AS e, "
        "1.5 * -1L AS g, 2Y + 0.5 AS h, 1.5 + 1::bigint AS i"
    ),
    "SELECT id, CASE WHEN ok THEN box END AS a, if(ok, tags, NULL) AS b FROM photos",
    "SELECT NULL AS x, box FROM photos UNION ALL SELECT id, NULL FROM photos",
    "SELECT id, count(*) FILTER (WHERE ok) OVER (ORDER BY id) AS n FROM photos",
    "SELECT id FROM photos WHERE ok OR k NOT IN (SELECT n FROM labels WHERE n > 1)",
    "SELECT id FROM photos WHERE ok OR k IN (SELECT n FROM labels)",
    "SELECT label, max(id) AS id FROM photos GROUP BY label HAVING id > 55",
    "SELECT 10 - 7 % 4 AS a, 1 + 2 || '3' AS b, '1' || 2 * 3 AS c, 1 < 2 = true AS d",
    "SELECT k FROM photos WHERE k = 1 UNION SELECT n FROM labels INTERSECT SELECT 2",
]
"""Answered alike."""

REFUSED: list[str] = [
    "SELECT 1/0 AS x",
    "SELECT 5 % (k - k) AS x FROM photos",
    "SELECT CAST('x' AS INT) AS x",
    "SELECT CAST(id + 300 AS TINYINT) AS x FROM photos",
    "SELECT 2147483647 + 1 AS x",
    "SELECT CAST(score AS INT) AS a FROM photos",
    "SELECT (SELECT k FROM labels) AS x",
    "SELECT max(label), id FROM photos",
    "SELECT labl FROM photos",
    "SELECT a.id FROM photos a, photos b WHERE k = 1",
    "SELECT id FROM photos HAVING id > 1",
    "SELECT row_number() OVER () AS n FROM photos",
    "SELECT lag(id) OVER (PARTITION BY k) AS n FROM photos",
    "SELECT count(DISTINCT k) OVER () AS n FROM photos",
    "SELECT rank() OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM photos",
    "SELECT sum(k) OVER (RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS n FROM photos",
    "SELECT 1e400 AS x",
    "SELECT 0x1F AS x",
    "SELECT CAST('2024-01-01 24:00:00' AS TIMESTAMP) AS x",
    "SELECT CAST('2024-01-01 10:00:00+19:00' AS TIMESTAMP) AS x",
    "SELECT CAST('2024-01-01 10:00:00+05:75' AS TIMESTAMP) AS x",
]
"""Refused by both: by a wrong word, or when a value shows it."""
