//! Verdicts of schemas 1 and 2: values and sentences side by side, members named after their unit, variants in
//! `CamelCase`.
//!
//! Today a verdict holds values only, its costs are in the `unit` of their judgement, and variants are in `snake_case`
//! with their name in `kind`. No figure changes, so `landau verify` compares an old record as strictly as a new one.

use serde_json::{Map, Value};

type Members = Map<String, Value>;

/// The names that a cost had in each unit of a record.
const UNITS: [&str; 3] = ["emulated_ns", "instructions", "ns"];

/// Variants whose names differ in more than their spelling.
const VARIANTS: [(&str, &str); 6] = [
    ("shrinks", "decreases"),
    ("strays", "point_deviates"),
    ("canary", "canary_moved"),
    ("every", "periodic"),
    ("climb", "tier_change"),
    ("near_floor", "near_timer_overhead"),
];

/// Returns a verdict of schema 1 or 2 as `landau-stats` serialises it today. A verdict of today is returned unchanged.
pub(super) fn upgrade(value: Value) -> Value {
    // Every older judgement has a sentence, today's has none.
    if value["all"]["words"].is_null() {
        return value;
    }
    object(value, |verdict| {
        change(verdict, "all", judgement);
        change(verdict, "clean", judgement);
        change(verdict, "flags", |flags| each(flags, plain));
        change(verdict, "outliers", outliers);
        change(verdict, "exact", |exact| object(exact, |exact| drop(exact.remove("words"))));
        rename(verdict, "modes", "bimodality");
        change(verdict, "bimodality", bimodality);
    })
}

fn judgement(value: Value) -> Value {
    object(value, |judgement| {
        judgement.remove("words");
        let unit = match (judgement.get("unit"), judgement.contains_key("one_ms")) {
            (Some(Value::String(unit)), _) if unit == "Instructions" => "instructions",
            (_, true) => "ns",
            (_, false) => "emulated_ns",
        };
        judgement.insert("unit".to_owned(), unit.into());
        rename(judgement, "one_ms", "one_million");
        change(judgement, "one_million", |reach| tagged(reach, Some("n")));
        change(judgement, "outcome", |outcome| {
            object(tagged(outcome, None), |outcome| change(outcome, "reason", plain))
        });
        change(judgement, "points", |points| each(points, |point| object(point, cost)));
        change(judgement, "fit", fit);
        change(judgement, "rivals", |rivals| each(rivals, fit));
        change(judgement, "cliffs", |cliffs| {
            each(cliffs, |cliff| {
                object(cliff, |cliff| {
                    for unit in UNITS {
                        rename(cliff, &format!("after_{unit}"), "cost_after");
                    }
                    rename(cliff, "mark", "annotation");
                })
            })
        });
        change(judgement, "bend", |bend| {
            object(bend, |bend| {
                rename(bend, "mark", "annotation");
                change(bend, "kind", plain);
            })
        });
    })
}

fn fit(value: Value) -> Value {
    object(value, |fit| {
        fit.remove("symbol");
        rename(fit, "shape", "location");
        rename(fit, "bic", "delta_bic");
        rename(fit, "misfit", "rms_residual");
        rename(fit, "misfit_p", "lack_of_fit_p");
    })
}

fn outliers(value: Value) -> Value {
    object(value, |outliers| {
        outliers.remove("words");
        rename(outliers, "structural", "recurring");
        rename(outliers, "structural_count", "recurring_count");
        rename(outliers, "structural_time", "recurring_time_share");
        rename(outliers, "neighbours", "isolated");
        rename(outliers, "neighbour_time", "isolated_time_share");
        rename(outliers, "rhythms", "patterns");
        change(outliers, "recurring", |all| each(all, |one| object(one, extremes)));
        change(outliers, "patterns", |all| {
            each(all, |pattern| {
                object(pattern, |pattern| {
                    pattern.remove("words");
                    extremes(pattern);
                    rename(pattern, "kind", "rule");
                    change(pattern, "rule", |rule| tagged(rule, None));
                })
            })
        });
    })
}

fn bimodality(value: Value) -> Value {
    object(value, |found| {
        change(found, "kind", plain);
        change(found, "low", |mode| object(mode, cost));
        change(found, "high", |mode| object(mode, cost));
    })
}

/// Renames `ns` to `cost`.
fn cost(members: &mut Members) {
    for unit in UNITS {
        rename(members, unit, "cost");
    }
}

/// Renames `ns_min` to `cost_min`, and so on.
fn extremes(members: &mut Members) {
    for unit in UNITS {
        for extreme in ["min", "median", "max"] {
            rename(members, &format!("{unit}_{extreme}"), &format!("cost_{extreme}"));
        }
    }
}

/// Returns an enum's value with its variant in `kind`: `{"Grows": {"law": "linear"}}` becomes `{"kind": "grows", "law":
/// "linear"}`. A variant that held one bare number holds it as `number`.
fn tagged(value: Value, number: Option<&str>) -> Value {
    let (variant, content) = match value {
        Value::Object(members) => match members.into_iter().next() {
            Some(pair) => pair,
            None => return Value::Null,
        },
        Value::String(variant) => (variant, Value::Null),
        other => return other,
    };
    let mut members = Members::from_iter([("kind".to_owned(), snake_case(&variant).into())]);
    match (content, number) {
        (Value::Object(content), _) => members.extend(content),
        (content @ Value::Number(_), Some(name)) => drop(members.insert(name.to_owned(), content)),
        _ => {}
    }
    Value::Object(members)
}

/// Returns the value of an enum without content.
fn plain(value: Value) -> Value {
    value.as_str().map(|variant| snake_case(variant).into()).unwrap_or(value)
}

/// Returns today's name of a variant.
fn snake_case(variant: &str) -> String {
    let mut name = String::new();
    for letter in variant.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    VARIANTS.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| (*new).to_owned())
}

fn object(mut value: Value, upgrade: impl FnOnce(&mut Members)) -> Value {
    if let Value::Object(members) = &mut value {
        upgrade(members);
    }
    value
}

fn each(value: Value, upgrade: impl Fn(Value) -> Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(upgrade).collect(),
        other => other,
    }
}

fn change(members: &mut Members, name: &str, upgrade: impl FnOnce(Value) -> Value) {
    if let Some(value) = members.get_mut(name) {
        *value = upgrade(value.take());
    }
}

fn rename(members: &mut Members, old: &str, new: &str) {
    if let Some(value) = members.remove(old) {
        members.insert(new.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::upgrade;
    use serde_json::json;

    #[test]
    fn an_old_verdict_gets_todays_names() {
        let old = json!({
            "all": {
                "words": "O(N): …", "outcome": {"Grows": {"law": "linear"}}, "one_ms": {"Extrapolated": 7.0},
                "points": [{"n": 1.0, "ns": {"value": 2.0}}],
                "fit": {"law": "linear", "symbol": "O(N)", "shape": null, "bic": 0.0, "misfit": 0.1, "misfit_p": null},
                "rivals": [], "cliffs": [{"after_ns": 3.0, "mark": null}], "bend": {"kind": "Climb", "mark": "L2"}
            },
            "clean": null, "flags": ["NearFloor"], "modes": {"kind": "ByPass", "low": {"ns": 1}, "high": {"ns": 2}},
            "outliers": {
                "words": "", "structural": [{"n": 3, "ns_min": 1}], "structural_count": 1, "neighbours": 0,
                "rhythms": [{"kind": {"Every": {"period": 8, "phase": 3}}, "ns_max": 9, "words": ""}]
            }
        });
        let new = json!({
            "all": {
                "unit": "ns", "outcome": {"kind": "grows", "law": "linear"},
                "one_million": {"kind": "extrapolated", "n": 7.0},
                "points": [{"n": 1.0, "cost": {"value": 2.0}}],
                "fit": {
                    "law": "linear", "location": null, "delta_bic": 0.0, "rms_residual": 0.1, "lack_of_fit_p": null
                },
                "rivals": [], "cliffs": [{"cost_after": 3.0, "annotation": null}],
                "bend": {"kind": "tier_change", "annotation": "L2"}
            },
            "clean": null, "flags": ["near_timer_overhead"],
            "bimodality": {"kind": "by_pass", "low": {"cost": 1}, "high": {"cost": 2}},
            "outliers": {
                "recurring": [{"n": 3, "cost_min": 1}], "recurring_count": 1, "isolated": 0,
                "patterns": [{"rule": {"kind": "periodic", "period": 8, "phase": 3}, "cost_max": 9}]
            }
        });
        assert_eq!(upgrade(old), new);
        assert_eq!(upgrade(new.clone()), new);
    }

    #[test]
    fn an_old_verdict_in_instructions_says_so() {
        let old = |unit: Option<&str>| {
            let mut all = json!({
                "words": "", "outcome": {"Inconclusive": {"reason": "Canary", "more_passes": null}},
                "one_million": "Never", "points": [{"instructions": 5}]
            });
            if let Some(unit) = unit {
                all["unit"] = unit.into();
            }
            upgrade(json!({"all": all}))
        };
        let counted = old(Some("Instructions"));
        assert_eq!(counted["all"]["unit"], "instructions");
        assert_eq!(counted["all"]["points"][0]["cost"], 5);
        assert_eq!(counted["all"]["one_million"]["kind"], "never");
        assert_eq!(counted["all"]["outcome"]["reason"], "canary_moved");
        assert_eq!(old(None)["all"]["unit"], "emulated_ns");
    }
}
