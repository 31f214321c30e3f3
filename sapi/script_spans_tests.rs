use super::*;

const LIMITS: AttributeLimits = AttributeLimits { count: 128, value_chars: None };

fn given<'a>(name: &'a str, value: ScriptValue<'a>) -> ScriptAttribute<'a> {
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
}

#[test]
fn a_list_holds_no_more_than_a_text() {
    let texts = vec![&b"0123456789"[..]; 10_000];
    let (AttributeValue::Texts(kept), _) = value_of(&ScriptValue::Texts(texts)) else { panic!("no texts") };
    assert!((100..SPAN_TEXT_BYTES_MAX / 10).contains(&kept.len()), "{}", kept.len());
    let (AttributeValue::Ints(kept), _) = value_of(&ScriptValue::Ints(vec![1; 10_000])) else {
        panic!("no integers")
    };
    assert_eq!(kept.len(), SPAN_TEXT_BYTES_MAX / 8);
    assert_eq!(value_of(&ScriptValue::Bools(Vec::new())), (AttributeValue::Bools(Vec::new()), 0));
}

#[test]
fn what_does_not_fit_is_counted_and_what_is_there_stays() {
    let (mut attributes, mut bytes_left) = (Attributes::default(), 300);
    let long = [b'x'; 200];
    set(&mut attributes, &given("a", ScriptValue::Text(&long)), &LIMITS, &mut bytes_left);
    set(&mut attributes, &given("b", ScriptValue::Text(&long)), &LIMITS, &mut bytes_left);
    set(
        &mut attributes,
        &given("a", ScriptValue::Text(b"again, and longer than what is left")),
        &LIMITS,
        &mut bytes_left,
    );
    assert_eq!((attributes.len(), attributes.dropped()), (1, 1));
    assert_eq!(attributes.get("a"), Some(&AttributeValue::lossy(&long)));
    set(&mut attributes, &given("c", ScriptValue::Bool(true)), &LIMITS, &mut bytes_left);
    assert_eq!(attributes.get("c"), Some(&AttributeValue::Bool(true)));
}

#[test]
fn without_a_recorder_nothing_is_recorded_and_the_trace_goes_on() {
    let root = SpanContext {
        trace_id: svc_core::trace::TraceId::new(7).unwrap(),
        span_id: SpanId::new(8).unwrap(),
        flags: 0,
        state: None,
    };
    let mut spans = OpenSpans::of_request(root.clone(), None);
    assert_eq!((spans.own(), spans.begin(0, b"name", ScriptSpanKind::Internal)), (0, 0));
    spans.set_attribute(8, &given("a", ScriptValue::Int(1)));
    spans.add_event(8, b"event", &[]);
    spans.set_status(8, ScriptSpanStatus::Error, b"");
    spans.fail(&ScriptFailure { class: b"E", message: b"", trace: b"", is_exception: true });
    spans.end(8);
    spans.end_all(time::now());
    assert_eq!(spans.traceparent(0), b"00-00000000000000000000000000000007-0000000000000008-00");
    assert_eq!(spans.seat(0).and_then(|seat| seat.downcast::<SpanContext>().ok()).as_deref(), Some(&root));
    // A task of a trace that is not sampled, or on a server that records nothing.
    assert_eq!(OpenSpans::of_task(root, None).begin(0, b"name", ScriptSpanKind::Internal), 0);
}
