//! Which crate may depend on which: ranks, the way to the engine, and purity.
//!
//! ```text
//!   6  cli  sim  model  bench
//!   5  node  gateway
//!   4  client  agent
//!   3  ledger  light  exec  link
//!   2  market  verify
//!   1  types  http  referee
//!   0  crypto
//! ```
//!
//! An edge goes to a strictly lower rank, so the order of the table is the order of reading.
//! `sim` stands above `node` because it runs the node's own engine instead of a copy.

use super::Finding;
use super::workspace::{Crate, Workspace};
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "edges";
const PREFIX: &str = "opengpu-";

const RANKS: [(&str, u8); 19] = [
    ("crypto", 0),
    ("types", 1),
    ("http", 1),
    ("referee", 1),
    ("market", 2),
    ("verify", 2),
    ("ledger", 3),
    ("light", 3),
    ("exec", 3),
    ("link", 3),
    ("client", 4),
    ("agent", 4),
    ("node", 5),
    ("gateway", 5),
    ("sdk", 5),
    ("sim", 6),
    ("model", 6),
    ("bench", 6),
    ("cli", 6),
];

/// A provider on Windows or macOS must stay possible, and the engine does not build there.
const NEVER_REACH_NODE: [&str; 7] = ["agent", "client", "exec", "link", "light", "gateway", "sdk"];

/// Who may name which crates of the engine.
const ENGINE: [(&str, &[&str]); 8] = [
    ("commonware-runtime", &["node", "sim"]),
    ("commonware-p2p", &["node", "sim"]),
    ("commonware-broadcast", &["node", "sim"]),
    ("commonware-resolver", &["node", "sim"]),
    ("commonware-stream", &["node", "sim"]),
    ("commonware-glue", &["node", "sim"]),
    ("commonware-consensus", &["node", "sim", "light"]),
    ("commonware-storage", &["node", "sim", "light"]),
];

/// Crates whose outputs depend on their inputs alone.
const PURE: [&str; 7] = ["crypto", "types", "market", "verify", "referee", "ledger", "light"];

/// Sockets, runtimes and JSON, which belong to the edge.
const IMPURE: [&str; 8] =
    ["axum", "futures", "hyper", "reqwest", "serde", "serde_json", "tokio", "ureq"];

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &workspace.crates {
        check_ranks(workspace, member, &mut findings);
        check_engine(workspace, member, &mut findings);
        check_purity(workspace, member, &mut findings);
    }
    check_reach(workspace, &mut findings);
    findings
}

fn check_ranks(workspace: &Workspace, member: &Crate, findings: &mut Vec<Finding>) {
    let ours = member.dependencies.iter().filter_map(|d| Some((d, role(&d.package)?)));
    if !member.folder().starts_with("crates/") {
        for (dependency, _) in ours {
            let message = format!(
                "{} stands beside the crates and must not depend on {}",
                member.package, dependency.package
            );
            findings.push(at(workspace, member, &dependency.package, message));
        }
        return;
    }
    let Some(own) = role(&member.package).and_then(rank) else {
        let message = format!("{} has no rank; give it one in tidy", member.package);
        findings.push(at(workspace, member, "name", message));
        return;
    };
    for (dependency, role) in ours {
        match rank(role) {
            Some(rank) if rank < own => {}
            Some(rank) => {
                let message = format!(
                    "{} (rank {own}) must not depend on {} (rank {rank})",
                    member.package, dependency.package
                );
                findings.push(at(workspace, member, &dependency.package, message));
            }
            None => {
                let message = format!("{} has no rank", dependency.package);
                findings.push(at(workspace, member, &dependency.package, message));
            }
        }
    }
}

fn check_engine(workspace: &Workspace, member: &Crate, findings: &mut Vec<Finding>) {
    for dependency in &member.dependencies {
        let Some((engine, allowed)) = ENGINE.iter().find(|(name, _)| *name == dependency.package)
        else {
            continue;
        };
        if !role(&member.package).is_some_and(|role| allowed.contains(&role)) {
            let message = format!("{engine} may be named only by {}", allowed.join(", "));
            findings.push(at(workspace, member, engine, message));
        }
    }
}

fn check_purity(workspace: &Workspace, member: &Crate, findings: &mut Vec<Finding>) {
    if !role(&member.package).is_some_and(|role| PURE.contains(&role)) {
        return;
    }
    for dependency in member.dependencies.iter().filter(|dependency| !dependency.dev) {
        if IMPURE.contains(&dependency.package.as_str()) {
            let message =
                format!("{} is pure and must not use {}", member.package, dependency.package);
            findings.push(at(workspace, member, &dependency.package, message));
        }
    }
    let lifted = format!("{}/clippy.toml", member.folder());
    if workspace.paths.contains(&lifted) {
        findings.push(Finding {
            path: lifted,
            line: 1,
            rule: RULE,
            message: format!("{} is pure and keeps the bans of the root", member.package),
        });
    }
}

fn check_reach(workspace: &Workspace, findings: &mut Vec<Finding>) {
    let edges: BTreeMap<&str, &Crate> =
        workspace.crates.iter().map(|member| (member.package.as_str(), member)).collect();
    for member in &workspace.crates {
        if !role(&member.package).is_some_and(|role| NEVER_REACH_NODE.contains(&role)) {
            continue;
        }
        let mut seen = BTreeSet::new();
        let mut open = vec![member.package.as_str()];
        while let Some(package) = open.pop() {
            if !seen.insert(package) {
                continue;
            }
            if let Some(found) = edges.get(package) {
                let needed = found.dependencies.iter().filter(|dependency| !dependency.dev);
                open.extend(needed.map(|dependency| dependency.package.as_str()));
            }
        }
        if seen.contains("opengpu-node") {
            let message = format!("{} must never reach opengpu-node", member.package);
            findings.push(at(workspace, member, "name", message));
        }
    }
}

fn role(package: &str) -> Option<&str> {
    package.strip_prefix(PREFIX)
}

fn rank(role: &str) -> Option<u8> {
    RANKS.iter().find(|(name, _)| *name == role).map(|(_, rank)| *rank)
}

/// A finding at the line of the manifest that starts with `word`.
fn at(workspace: &Workspace, member: &Crate, word: &str, message: String) -> Finding {
    let line = workspace
        .file(&member.manifest)
        .and_then(|file| file.lines().find(|(_, line)| line.starts_with(word)))
        .map_or(1, |(number, _)| number);
    Finding { path: member.manifest.clone(), line, rule: RULE, message }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::workspace::{Crate, Dependency, Workspace};

    fn member(package: &str, dependencies: &[&str]) -> Crate {
        let folder = package
            .strip_prefix("opengpu-")
            .map_or_else(|| package.to_owned(), |role| format!("crates/room/{role}"));
        let dependencies = dependencies.iter().map(|name| Dependency {
            package: name.trim_start_matches("dev:").to_owned(),
            dev: name.starts_with("dev:"),
        });
        Crate {
            package: package.into(),
            manifest: format!("{folder}/Cargo.toml"),
            dependencies: dependencies.collect(),
        }
    }

    fn messages(crates: Vec<Crate>) -> Vec<String> {
        let workspace = Workspace { crates, ..Workspace::default() };
        check(&workspace).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn edges_to_lower_ranks_are_silent() {
        let crates = vec![
            member("opengpu-crypto", &["commonware-codec"]),
            member("opengpu-types", &["opengpu-crypto"]),
            member("opengpu-light", &["opengpu-types", "commonware-consensus"]),
            member("opengpu-node", &["opengpu-light", "commonware-runtime", "tokio"]),
            member("opengpu-sim", &["opengpu-node", "commonware-runtime"]),
            member("xtask", &["serde_json"]),
        ];
        assert!(messages(crates).is_empty());
    }

    #[test]
    fn an_edge_within_a_rank_or_upwards_is_found() {
        let found = messages(vec![
            member("opengpu-ledger", &["opengpu-light"]),
            member("opengpu-types", &["dev:opengpu-ledger"]),
        ]);
        let wanted = [
            "opengpu-ledger (rank 3) must not depend on opengpu-light (rank 3)",
            "opengpu-types (rank 1) must not depend on opengpu-ledger (rank 3)",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_crate_without_a_rank_is_found() {
        let found = messages(vec![member("opengpu-extras", &[])]);
        assert_eq!(found, ["opengpu-extras has no rank; give it one in tidy"]);
    }

    #[test]
    fn the_engine_is_named_by_node_and_sim_only() {
        let found = messages(vec![member("opengpu-ledger", &["commonware-runtime"])]);
        assert_eq!(found, ["commonware-runtime may be named only by node, sim"]);
        let found = messages(vec![member("opengpu-client", &["commonware-storage"])]);
        assert_eq!(found, ["commonware-storage may be named only by node, sim, light"]);
    }

    #[test]
    fn reaching_node_through_another_crate_is_found() {
        let found = messages(vec![
            member("opengpu-gateway", &["opengpu-client"]),
            member("opengpu-client", &["opengpu-node"]),
        ]);
        assert!(found.contains(&"opengpu-gateway must never reach opengpu-node".to_owned()));
    }

    #[test]
    fn a_pure_crate_with_a_runtime_is_found_but_its_tests_may_use_one() {
        let found = messages(vec![member("opengpu-ledger", &["tokio", "dev:serde_json"])]);
        assert_eq!(found, ["opengpu-ledger is pure and must not use tokio"]);
    }

    #[test]
    fn a_pure_crate_that_lifts_the_bans_is_found() {
        let mut workspace = Workspace::with_files(&[("crates/room/ledger/clippy.toml", "")]);
        workspace.crates.push(member("opengpu-ledger", &[]));
        let found = check(&workspace);
        assert_eq!(found[0].message, "opengpu-ledger is pure and keeps the bans of the root");
    }

    #[test]
    fn this_tool_depends_on_no_crate_of_the_network() {
        let found = messages(vec![member("xtask", &["opengpu-types"])]);
        assert_eq!(found, ["xtask stands beside the crates and must not depend on opengpu-types"]);
    }

    #[test]
    fn a_finding_points_at_the_line_of_the_manifest() {
        let manifest = "[package]\n\n[dependencies]\nopengpu-light.workspace = true\n";
        let mut workspace = Workspace::with_files(&[("crates/room/ledger/Cargo.toml", manifest)]);
        workspace.crates.push(member("opengpu-ledger", &["opengpu-light"]));
        assert_eq!(check(&workspace)[0].line, 4);
    }
}
