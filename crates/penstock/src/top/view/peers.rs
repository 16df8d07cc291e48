//! The peers of the site, each with its work and its stores.

use penstock_api::operate::{PeerStore, PeerView, TaskLoad};
use penstock_proto::units::format_rate;
use ratatui::style::Style;
use ratatui::text::Line;

use super::body::Body;
use super::overview::peer_mark;
use crate::commands::peer::{in_hand, lanes_text, peer_state};
use crate::terminal::line::{LineBuilder, heading, wrapped};
use crate::terminal::theme::Theme;
use crate::top::model::Model;

/// Columns before the facts about a peer.
const INDENT: &str = "    ";

/// Returns the lines of the page.
pub(super) fn body(model: &Model, theme: Theme, width: usize) -> Body {
    let Some(health) = &model.health else {
        let line = Line::styled("  asking the peers …", theme.faint());
        return Body { lines: vec![line], ..Body::default() };
    };
    let peers = &health.peers.peers;
    let mut lines = vec![heading(theme, &format!("PEERS {}", peers.len()), "", width)];
    for peer in peers {
        lines.extend(peer_lines(model, theme, width, peer));
    }
    Body { lines, scroll: model.scroll, ..Body::default() }
}

fn peer_lines(model: &Model, theme: Theme, width: usize, peer: &PeerView) -> Vec<Line<'static>> {
    let (mark, style) = peer_mark(theme, peer);
    let mut first = LineBuilder::new(theme);
    first.text(&format!(" {mark} "), style);
    first.text(&format!("{}  ", peer.peer), theme.strong());
    first.text(&peer_state(peer, model.now_ms / 1000), style);
    first.right(&peer.version, width, theme.faint());
    let mut lines = vec![first.finish(width)];
    let mut add = |text: &str, style: Style| {
        for line in wrapped(text, width, INDENT, INDENT) {
            lines.push(Line::styled(theme.cut(&line, width), style));
        }
    };
    if !peer.trouble.is_empty() {
        add(&peer.trouble, theme.bad());
    }
    let mut work = in_hand(peer);
    if let Some(load) = &peer.load {
        work += &format!(", load {:.1}", load.host_load);
    }
    if let Some(ahead) = peer.clock_ahead_ms.filter(|_| !peer.own) {
        work += &format!(", clock {ahead:+.0} ms");
    }
    add(&format!("in hand: {work}"), Style::new());
    for task in peer.load.iter().flat_map(|load| &load.tasks) {
        add(&task_text(task), theme.faint());
    }
    let stores: Vec<_> = peer.stores.iter().map(store_text).collect();
    if !stores.is_empty() {
        add(&format!("stores: {}", stores.join(", ")), theme.faint());
    }
    lines
}

fn task_text(task: &TaskLoad) -> String {
    let from = task.source.as_ref().map(|site| format!(" from {site}")).unwrap_or_default();
    let rate = format_rate(task.rate_bits_per_s);
    let id = task.transfer.short();
    format!("writes {id} to {}{from}: {rate} over {}", task.store, lanes_text(task.lanes))
}

fn store_text(store: &PeerStore) -> String {
    match store.is.as_str() {
        "same" | "alone" => store.store.to_string(),
        "other" => format!("{} (ANOTHER ONE)", store.store),
        is if store.why.is_empty() => format!("{} ({is})", store.store),
        is => format!("{} ({is}: {})", store.store, store.why),
    }
}
