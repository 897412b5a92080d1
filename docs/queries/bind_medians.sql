-- Prints the median cost of bind() by pass, in buckets of n that double. The medians show the cliff.
--
-- duckdb -cmd "SET VARIABLE record = 'FILE.landau.ndjson'" -f docs/queries/bind_medians.sql

WITH lines AS (
    SELECT * FROM read_json(
        getvariable('record'),
        format = 'newline_delimited',
        columns = {
            kind: 'VARCHAR', label: 'VARCHAR', benchmark: 'VARCHAR', "case": 'INTEGER', pass: 'INTEGER',
            outcome: 'VARCHAR', phase: 'VARCHAR', "first": 'INTEGER', stride: 'INTEGER', ns: 'UBIGINT[]'
        }
    )
),
-- Only completed passes count; Landau repeats an interrupted pass.
completed AS (
    SELECT begun.pass, cases.label
    FROM lines AS begun
    JOIN lines AS ended ON ended.kind = 'pass_end' AND ended.pass = begun.pass
    JOIN lines AS cases ON cases.kind = 'case' AND cases."case" = begun."case"
    WHERE begun.kind = 'pass' AND ended.outcome IN ('done', 'limit') AND cases.benchmark = 'bind'
),
samples AS (
    SELECT
        completed.label,
        dense_rank() OVER (PARTITION BY completed.label ORDER BY completed.pass) AS pass,
        chunk."first" + chunk.stride * (generate_subscripts(chunk.ns, 1) - 1) AS n,
        unnest(chunk.ns) AS ns
    FROM lines AS chunk
    JOIN completed ON completed.pass = chunk.pass
    WHERE chunk.kind = 'chunk' AND chunk.phase = 'bind'
)
PIVOT (SELECT label, pass, CAST(power(2, floor(log2(n))) AS INTEGER) AS from_n, ns FROM samples)
ON 'pass ' || pass USING CAST(median(ns) AS INTEGER)
GROUP BY label, from_n
ORDER BY label, from_n;
