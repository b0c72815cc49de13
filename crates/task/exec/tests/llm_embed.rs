//! Sentence embeddings through the public interface, with a real model.
#![cfg(feature = "llm")]
#![expect(clippy::float_arithmetic, clippy::unwrap_used, reason = "a test stops where it fails")]

mod models;

use opengpu_exec::llm::{EmbedError, Embedder};

fn open() -> Embedder {
    Embedder::open(&models::path("minilm")).unwrap()
}

fn closeness(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

#[test]
fn texts_of_one_meaning_lie_close_together() {
    let texts = [
        "A cat sits on the mat.",
        "There is a kitten on the carpet.",
        "The stock market fell by three percent.",
    ];
    let points = open().embed(&texts).unwrap();
    let near = closeness(&points[0].point, &points[1].point);
    let far = closeness(&points[0].point, &points[2].point);
    assert!(near > 0.5 && far < 0.2, "{near} {far}");
    for point in &points {
        assert_eq!(point.point.len(), 384);
        assert!((closeness(&point.point, &point.point) - 1.0).abs() < 1e-5);
    }
    // Words, the full stop, start and end.
    assert_eq!(points[0].tokens, 9);
}

#[test]
fn a_point_does_not_depend_on_what_else_was_asked() {
    let embedder = open();
    let alone = embedder.embed(&["short"]).unwrap();
    let long = "a much longer text that would need padding ".repeat(5);
    let together = embedder.embed(&[&long, "short"]).unwrap();
    assert_eq!(alone[0], together[1]);
    assert_ne!(together[0], together[1]);
}

#[test]
fn a_text_beyond_the_room_of_the_model_is_cut() {
    let points = open().embed(&[&"word ".repeat(5_000)]).unwrap();
    assert_eq!(points[0].tokens, 512);
}

#[test]
fn too_much_at_once_and_broken_files_are_refused() {
    let embedder = open();
    assert!(matches!(embedder.embed(&["x"; 2_049]), Err(EmbedError::Texts { found: 2_049 })));
    let long = "x".repeat((1 << 20) + 1);
    assert!(matches!(embedder.embed(&[&long]), Err(EmbedError::Text { .. })));

    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    assert!(matches!(Embedder::open(folder.path()), Err(EmbedError::Read { .. })));
    let config = std::fs::read_to_string(models::path("minilm/config.json")).unwrap();
    for (from, to) in [
        ("\"hidden_size\": 384", "\"hidden_size\": 99999999"),
        ("\"num_attention_heads\": 12", "\"num_attention_heads\": 0"),
        ("\"num_attention_heads\": 12", "\"num_attention_heads\": 7"),
        ("{", "["),
    ] {
        std::fs::write(place("config.json"), config.replace(from, to)).unwrap();
        let error = Embedder::open(folder.path()).unwrap_err();
        assert!(matches!(error, EmbedError::File { file: "config.json", .. }), "{to}: {error:?}");
    }
    std::fs::write(place("config.json"), config).unwrap();
    std::fs::copy(models::path("minilm/tokenizer.json"), place("tokenizer.json")).unwrap();
    std::fs::write(place("model.safetensors"), [255; 64]).unwrap();
    let error = Embedder::open(folder.path()).unwrap_err();
    assert!(matches!(error, EmbedError::File { file: "model.safetensors", .. }), "{error:?}");
}
