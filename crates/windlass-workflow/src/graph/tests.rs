use super::*;

fn plan(edges: &[(&str, &str)]) -> Plan {
    let mut text = String::new();
    for (name, rest) in edges {
        text += &format!("[step.'{name}']\nrun = 'true'\n{rest}\n");
    }
    let workflow = crate::parse("flow.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    workflow.plan().clone()
}

fn check(edges: &[(&str, &str)], picture: &[&str]) {
    let drawn = graph(&plan(edges), GraphFormat::Text);
    assert_eq!(drawn.lines().collect::<Vec<_>>(), picture);
}

#[test]
fn a_drawing_without_utf_8_has_the_same_shape() {
    let edges = [
        ("ä", "each = { n = [1, 2], m = [3] }"),
        ("b", "after = 'ä'"),
        ("c", "after = ['ä', 'b']"),
        ("d", "after = ['ä', 'b', 'c']"),
    ];
    let drawn = graph(&plan(&edges), GraphFormat::Ascii);
    assert_eq!(drawn, "* ä  (2 of n x m)\n|-* b\n|-+-* c\n`-+-+-* d\n");
}

#[test]
fn a_diamond_branches_and_joins() {
    check(
        &[("a", ""), ("b", "after = 'a'"), ("c", "after = 'a'"), ("d", "after = ['b', 'c']")],
        &["● a", "├─● b", "╰─│─● c", "  ╰─┴─● d"],
    );
}

#[test]
fn rails_that_end_make_room() {
    check(
        &[("a", ""), ("b", ""), ("c", "after = 'a'"), ("d", "after = 'b'"), ("e", "")],
        &["● a", "│ ● b", "╰─│─● c", "  ╰─● d", "● e"],
    );
}

#[test]
fn a_rail_stays_open_across_a_join_it_is_part_of() {
    check(
        &[
            ("a", ""),
            ("b", "after = 'a'"),
            ("c", "after = ['a', 'b']"),
            ("d", "after = ['a', 'b', 'c']"),
        ],
        &["● a", "├─● b", "├─┼─● c", "╰─┴─┴─● d"],
    );
}

#[test]
fn a_step_to_the_left_leaves_the_rails_to_its_right() {
    check(
        &[("a", ""), ("b", "after = 'a'"), ("c", ""), ("d", "after = 'b'")],
        &["● a", "╰─● b", "● │ c", "  ╰─● d"],
    );
}

#[test]
fn the_caption_has_what_rails_do_not_show() {
    check(
        &[("a", "each = { n = [1, 2], m = [3] }"), ("b", "after = { a = 'done' }\nlock = 'x'")],
        &["● a  (2 of n × m)", "╰─● b  (a done, lock)"],
    );
}

#[test]
fn too_many_rails_become_a_list() {
    let names: Vec<_> = (0..40).map(|number| format!("s{number}")).collect();
    let mut edges: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    let all = format!("after = {names:?}");
    edges.push(("all", &all));
    let drawn = graph(&plan(&edges), GraphFormat::Text);
    assert!(drawn.starts_with("s0\ns1\n"), "{drawn}");
    assert!(drawn.contains("all  <- s0, s1"), "{drawn}");
}

#[test]
fn names_are_quoted_for_every_format() {
    let plan = plan(&[("a", r##"each = { n = ['x"y', '<b>#'] }"##)]);
    let dot = graph(&plan, GraphFormat::Dot);
    assert!(dot.contains(r#""a[x\"y]";"#), "{dot}");
    let mermaid = graph(&plan, GraphFormat::Mermaid);
    assert!(mermaid.contains(r#"s0["a[x#34;y]"]"#), "{mermaid}");
    assert!(mermaid.contains(r#"s1["a[#60;b#62;#35;]"]"#), "{mermaid}");
    let json: Value = serde_json::from_str(&graph(&plan, GraphFormat::Json)).expect("JSON");
    assert_eq!(json["steps"][0]["each"]["n"], "x\"y");
}
