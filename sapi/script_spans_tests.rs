use crate::span_text::{ATTRIBUTE_BYTES, cut};

use super::*;

const LIMITS: AttributeLimits = AttributeLimits { count: 128, value_chars: None };

fn given<'a>(name: &'a str, value: AttributeValue<&'a [u8]>) -> ScriptAttribute<'a> {
    ScriptAttribute { name: name.as_bytes(), value }
}

#[test]
fn a_text_is_cut_between_characters() {
    assert_eq!(text(b"a\xffb"), "a\u{fffd}b");
    for lead in 0..4 {
        let long = "x".repeat(lead) + &"😀".repeat(SPAN_TEXT_BYTES_MAX / 4);
        let kept = text(long.as_bytes());
        assert!(long.starts_with(&kept) && kept.len() > SPAN_TEXT_BYTES_MAX - 4, "{lead}");
    }
    let continuations = vec![0x80; 2 * SPAN_TEXT_BYTES_MAX];
    assert!(cut(&continuations).len() <= SPAN_TEXT_BYTES_MAX);
    // The replacement of a byte that is not UTF-8 takes three.
    assert_eq!(text(&continuations).len(), SPAN_TEXT_BYTES_MAX / 3 * 3);
}

#[test]
fn a_list_holds_no_more_than_a_text() {
    let texts = vec![&b"0123456789"[..]; 10_000];
    let AttributeValue::Texts(kept) = value_of(&AttributeValue::Texts(texts)) else { panic!("no texts") };
    assert!((100..SPAN_TEXT_BYTES_MAX / 10).contains(&kept.len()), "{}", kept.len());
    let AttributeValue::Ints(kept) = value_of(&AttributeValue::Ints(vec![1; 10_000])) else {
        panic!("no integers")
    };
    assert_eq!(kept.len(), SPAN_TEXT_BYTES_MAX / 8);
    assert_eq!(value_of(&AttributeValue::Bools(Vec::new())), AttributeValue::Bools(Vec::new()));
}

#[test]
fn truncated_and_dropped_values_take_no_room() {
    let (mut attributes, mut bytes_left) = (Attributes::default(), SPAN_BYTES_MAX);
    for name in ["a", "b", "c"] {
        set(&mut attributes, &given(name, AttributeValue::Ints(vec![1; 100_000])), &LIMITS, &mut bytes_left);
    }
    let taken = 3 * (SPAN_TEXT_BYTES_MAX + ATTRIBUTE_BYTES + 1);
    assert_eq!((attributes.len(), attributes.dropped(), SPAN_BYTES_MAX - bytes_left), (3, 0, taken));
    let few = AttributeLimits { count: 3, value_chars: Some(5) };
    set(&mut attributes, &given("d", AttributeValue::Bool(true)), &few, &mut bytes_left);
    assert_eq!((attributes.dropped(), SPAN_BYTES_MAX - bytes_left), (1, taken));
    set(&mut attributes, &given("c", AttributeValue::Text(&[b'x'; 1000])), &few, &mut bytes_left);
    assert_eq!(SPAN_BYTES_MAX - bytes_left, taken - SPAN_TEXT_BYTES_MAX + 5);
}

#[test]
fn an_attribute_that_is_set_again_takes_the_room_of_its_last_value() {
    let (mut attributes, mut bytes_left) = (Attributes::default(), 1000);
    for i in 0..2000 {
        set(&mut attributes, &given("rows", AttributeValue::Int(i)), &LIMITS, &mut bytes_left);
    }
    for length in (0..800).rev() {
        let text = vec![b'x'; length];
        set(&mut attributes, &given("text", AttributeValue::Text(&text)), &LIMITS, &mut bytes_left);
    }
    assert_eq!((attributes.get("rows"), attributes.dropped()), (Some(&AttributeValue::Int(1999)), 0));
    assert_eq!((attributes.get("text"), attributes.len()), (Some(&AttributeValue::lossy(b"")), 2));
    assert_eq!(bytes_left, 1000 - 2 * ATTRIBUTE_BYTES - "rows".len() - "text".len());
}

#[test]
fn an_oversized_value_is_counted_and_replaces_the_earlier_one() {
    let (mut attributes, mut bytes_left) = (Attributes::default(), 300);
    let long = [b'x'; 200];
    set(&mut attributes, &given("a", AttributeValue::Text(&long)), &LIMITS, &mut bytes_left);
    set(&mut attributes, &given("b", AttributeValue::Text(&long)), &LIMITS, &mut bytes_left);
    assert_eq!((attributes.len(), attributes.dropped()), (1, 1));
    assert_eq!(attributes.get("a"), Some(&AttributeValue::lossy(&long)));
    set(&mut attributes, &given("a", AttributeValue::Text(&[b'y'; 300])), &LIMITS, &mut bytes_left);
    assert_eq!((attributes.len(), attributes.dropped(), bytes_left), (0, 2, 300));
    set(&mut attributes, &given("c", AttributeValue::Bool(true)), &LIMITS, &mut bytes_left);
    assert_eq!(attributes.get("c"), Some(&AttributeValue::Bool(true)));
}

#[test]
fn an_attribute_without_a_name_is_dropped() {
    let (mut attributes, mut bytes_left) = (Attributes::default(), 300);
    set(&mut attributes, &given("", AttributeValue::Int(1)), &LIMITS, &mut bytes_left);
    assert_eq!((attributes.len(), attributes.dropped(), bytes_left), (0, 1, 300));
}

#[test]
fn without_a_recorder_nothing_is_recorded_and_the_trace_continues() {
    let root = SpanContext {
        trace_id: svc_core::trace::TraceId::new(7).unwrap(),
        span_id: SpanId::new(8).unwrap(),
        flags: 0,
        state: None,
    };
    let mut spans = OpenSpans::of_request(root.clone(), None);
    assert_eq!((spans.own(), spans.begin(0, b"name", SpanKind::Internal)), (0, 0));
    spans.set_attribute(8, &given("a", AttributeValue::Int(1)));
    spans.add_event(8, b"event", &[]);
    spans.set_status(8, SpanStatus::Error(b""));
    spans.fail(&ScriptFailure { class: b"E", message: b"", trace: b"", is_exception: true });
    spans.end(8, true);
    spans.end_all(time::now());
    assert_eq!(spans.traceparent(0), b"00-00000000000000000000000000000007-0000000000000008-00");
    assert_eq!(
        spans.context(0).and_then(|context| context.downcast::<SpanContext>().ok()).as_deref(),
        Some(&root)
    );
    // A task of a trace that is not sampled, or on a server without export.
    assert_eq!(OpenSpans::of_task(root, None).begin(0, b"name", SpanKind::Internal), 0);
}
