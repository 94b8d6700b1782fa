//! Reports of results made up here.

use std::collections::BTreeMap;

use super::*;

fn cell(policy: &str, sessions: u32, figures: &[(&str, f64)]) -> ResultCell {
    let mut cell = ResultCell {
        workload: "published".to_owned(),
        sessions,
        policy: policy.to_owned(),
        spill_threshold: None,
        runs: 2,
        figures: BTreeMap::new(),
    };
    for (name, value) in figures {
        cell.insert(name, &[Some(*value - 1.0), Some(*value + 1.0)]);
    }
    cell
}

fn results(cells: Vec<ResultCell>) -> Results {
    Results {
        kind: Kind::Bench,
        version: "0".to_owned(),
        started: 1,
        settings: serde_json::json!({
            "model": "</script><b>",
            "stage_s": 10.0,
            "warnings": ["the counts differ"],
        }),
        cells,
    }
}

fn pair() -> Results {
    results(vec![
        cell(
            "balanced",
            4,
            &[
                ("ttfb_s_p50", 2.05),
                ("own_hit_percent", 40.0),
                ("failed", 3.0),
            ],
        ),
        cell(
            "affinity",
            4,
            &[("ttfb_s_p50", 1.38), ("own_hit_percent", 96.0)],
        ),
    ])
}

fn printed(results: &Results) -> String {
    let mut out = Vec::new();
    print(results, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_table_shows_off_beside_on_with_spread_and_what_was_lost() {
    let text = printed(&pair());
    for part in [
        "balanced → affinity",
        "2.05 → 1.38",
        "1.41 → 1.41",
        "40.0 → 96.0",
        "- → -",
        "3.0 turns failed",
        "warning: the counts differ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn one_arm_alone_has_a_table_too() {
    let text = printed(&results(vec![cell("direct", 8, &[("ttfb_s_p50", 2.0)])]));
    assert!(text.starts_with("direct\n"), "{text}");
    assert!(text.contains("       8") && !text.contains('→'), "{text}");
}

#[test]
fn csv_has_every_figure_of_every_cell() {
    let text = csv(&[pair()]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    let at = lines[0]
        .iter()
        .position(|name| *name == "ttfb_s_p50")
        .unwrap();
    assert_eq!((lines[1][at], lines[2][at]), ("2.05", "1.38"));
    let at = lines[0].iter().position(|name| *name == "failed").unwrap();
    assert_eq!((lines[1][at], lines[2][at]), ("3", ""));
}

#[test]
fn the_page_holds_the_data_and_no_data_can_leave_its_element() {
    let report = Report::of(&[pair()], false, &|_| ()).unwrap();
    let kinds: Vec<_> = report.sources.iter().map(|source| source.kind).collect();
    assert_eq!(kinds, ["bench", "published"]);
    let page = html(&report);
    assert!(!page.contains("</script><b>"));
    let (_, rest) = page.split_once("type=\"application/json\">").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(data["sources"][0]["settings"]["model"], "</script><b>");
    assert_eq!(data["sources"][1]["cells"].as_array().unwrap().len(), 10);
}

#[test]
fn a_simulation_of_the_same_load_is_put_beside_a_measurement() {
    let report = Report::of(&[pair()], true, &|_| ()).unwrap();
    let simulated = &report.sources[1];
    assert_eq!(simulated.kind, "simulation");
    assert!(simulated.cells.iter().all(|cell| cell.sessions == 4));
    assert_eq!(simulated.settings["stage_s"], 10.0);
}

#[test]
fn saved_results_are_read_back_and_other_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (
        folder.path().join("good.json"),
        folder.path().join("bad.json"),
    );
    let outputs = Outputs {
        json: Some(good.clone()),
        ..Outputs::default()
    };
    outputs.check().unwrap();
    outputs.write(&[pair(), pair()]).unwrap();
    assert_eq!(load(&[good]).unwrap(), [pair(), pair()]);
    std::fs::write(&bad, "{}").unwrap();
    let error = load(&[bad]).unwrap_err().to_string();
    assert!(error.contains("bad.json holds no results"), "{error}");
    let nowhere = Outputs {
        html: Some(folder.path().join("no/report.html")),
        ..Outputs::default()
    };
    assert!(nowhere.check().unwrap_err().to_string().contains("--html"));
}
