#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sqlite3: a table, an index, aggregates, a vacuum, and a statement that fails.
# Needs: sqlite3
# Package: sqlite3
# Allocs: 30000
# Frees: own
cat >in.sql <<'EOS'
CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT, v REAL);
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
    INSERT INTO p SELECT i, printf('%08x', i * 2654435761 % 4294967296), i * 0.5 FROM n;
CREATE INDEX by_name ON p(name);
SELECT count(*), sum(v), min(name), max(name) FROM p WHERE name BETWEEN '3' AND 'c';
SELECT substr(name, 1, 1) AS k, count(*), group_concat(id % 10) FROM p GROUP BY k ORDER BY k;
DELETE FROM p WHERE id % 3 = 0;
VACUUM;
PRAGMA integrity_check;
SELECT no_such_column FROM p;
EOS
"$UNDER" sqlite3 -batch -bail data.db <in.sql
