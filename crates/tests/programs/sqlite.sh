#!/bin/bash
# relive: needs-tool=sqlite3
# A database on a file: transactions, an index, joins, an integrity check.
set -euo pipefail
sqlite3 -batch data.db <<'SQL'
PRAGMA journal_mode=WAL;
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price REAL);
CREATE TABLE sale(item INTEGER REFERENCES item, amount INTEGER);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
INSERT INTO item SELECT i, printf('item-%04d', i * 7919 % 2000), i * 0.25 FROM n;
INSERT INTO sale SELECT id, id % 17 FROM item WHERE id % 3 = 0;
COMMIT;
CREATE INDEX by_name ON item(name);
SELECT count(*), sum(price) FROM item;
SELECT name, amount FROM item JOIN sale ON sale.item = item.id ORDER BY amount DESC, name LIMIT 5;
BEGIN; DELETE FROM item; ROLLBACK;
UPDATE item SET price = price * 2 WHERE name LIKE 'item-00%';
SELECT printf('%.2f', avg(price)) FROM item;
PRAGMA integrity_check;
SQL
sqlite3 data.db 'SELECT group_concat(amount, "") FROM (SELECT amount FROM sale LIMIT 20)'
sqlite3 data.db .dump | cksum
echo ok
