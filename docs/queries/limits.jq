# Prints the limits that ended a curve: in how many passes, at which n, by which call, and how to raise them.
#
# jq -rsf docs/queries/limits.jq FILE.landau.ndjson

(map(select(.kind == "case") | {key: (.case | tostring), value: .label}) | from_entries) as $labels
| (map(select(.kind == "pass") | {key: (.pass | tostring), value: $labels[.case | tostring]}) | from_entries) as $of
| map(select(.kind == "pass_end" and .outcome == "limit") | .limit + {label: $of[.pass | tostring]})
| group_by([.label, .call, .error])[]
| "\(.[0].label): \(length) passes ended at n = \(map(.n) | unique | map(tostring) | join(", "))",
  "  \(.[0].call): \(.[0].error), \(.[0].meaning)",
  "  \(.[0].raise)"
