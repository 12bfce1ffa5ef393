-- About ten seconds of work in memory.
CREATE TABLE item(id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, price INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500000)
INSERT INTO item SELECT i, (i * 7919) % 1000, 'item ' || ((i * 104729) % 2500013), (i * 31) % 977 FROM n;
CREATE INDEX by_name ON item(name);
-- half-way
UPDATE item SET price = price + 1 WHERE kind % 3 = 0;
SELECT kind % 10, count(*), sum(price), min(name) FROM item GROUP BY kind % 10 ORDER BY 1;
SELECT count(*) FROM item a JOIN item b ON b.name = a.name WHERE a.kind < 300 AND b.price > 100;
SELECT count(DISTINCT substr(name, 1, 7)) FROM item WHERE name LIKE '%7%';
