-- Prints the cost of each curve at its point nearest to n = 1,000, by kernel, from the index of a collection.
--
-- sqlite3 -box DIR/.landau-history.sqlite < docs/queries/history_costs.sql
-- duckdb -cmd "ATTACH 'DIR/.landau-history.sqlite' AS history (TYPE sqlite); USE history" -f docs/queries/history_costs.sql

WITH nearest AS (
    SELECT
        point.curve,
        point.n,
        point.cost,
        row_number() OVER (PARTITION BY point.curve ORDER BY abs(point.n - 1000), point.n) AS place
    FROM point
    WHERE point.n BETWEEN 900 AND 1100
)
SELECT
    curve.label,
    curve.phase,
    record.unit,
    record.release,
    count(*) AS records,
    round(avg(nearest.cost), 1) AS mean_cost
FROM nearest
JOIN curve ON curve.curve = nearest.curve
JOIN record ON record.record = curve.record
WHERE nearest.place = 1 AND record.state = 'sound'
GROUP BY curve.benchmark, curve.label, curve.phase, record.unit, record.release
ORDER BY curve.benchmark, curve.label, curve.phase, record.unit, record.release;
