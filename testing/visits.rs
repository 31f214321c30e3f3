//! The visits of users to applications built with a framework.

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const FILES: &str = "multipart/form-data; boundary=parts";

/// One request: method, target, type of its body, body.
pub type Step = (&'static str, String, &'static str, Vec<u8>);

/// Returns the requests of user number `user` in one visit to the Symfony application.
pub fn symfony(user: usize, visit: usize) -> Vec<Step> {
    let form = format!("name=user+{user}&visit={visit}&list[]=a&list[]=%C3%A4&empty=").into_bytes();
    vec![
        get(format!("/?name=%3Cuser%20{user}%3E")),
        get("/counter".to_owned()),
        ("POST", "/form".to_owned(), FORM, form),
        get("/counter".to_owned()),
        get("/saved".to_owned()),
        ("PUT", format!("/json/{visit}?user={user}"), JSON, format!("{{\"user\":{user}}}").into_bytes()),
        get("/boom".to_owned()),
        ("POST", "/upload".to_owned(), FILES, form_with_file(user)),
        get(format!("/cookie?taste=of-{user}-{visit}")),
        get("/stream".to_owned()),
        get("/teapot".to_owned()),
        get("/error".to_owned()),
        get("/login".to_owned()),
        get("/counter".to_owned()),
        get(format!("/nowhere/{user}")),
        get("/upload".to_owned()),
        get("/download".to_owned()),
        get(format!("/json/{user}")),
        get("/saved".to_owned()),
        get(if visit % 3 == 2 { "/logout" } else { "/counter" }.to_owned()),
    ]
}

/// Returns the requests of user number `user` in one visit to the Laravel application; `token` is the CSRF token of the
/// last form.
pub fn laravel(user: usize, visit: usize) -> Vec<Step> {
    let form = |name: &str| format!("name={name}&visit={visit}&list[]=a&list[]=%C3%A4&other=").into_bytes();
    let put = |body: &str| ("PUT", format!("/json/{visit}?user={user}"), JSON, body.to_owned().into_bytes());
    let with_token = |target: &str| format!("{target}?_token={{token}}");
    vec![
        get(format!("/?name=%3Cuser%20{user}%3E{}", if user.is_multiple_of(2) { "&lang=de" } else { "" })),
        get("/services".to_owned()),
        get("/counter".to_owned()),
        get("/form".to_owned()),
        ("POST", with_token("/form"), FORM, form(&format!("user+{user}"))),
        get("/form".to_owned()),
        ("POST", with_token("/form"), FORM, form(&format!("somebody+whose+number+is+{user}"))),
        get("/form".to_owned()),
        ("POST", "/form".to_owned(), FORM, form("nobody")),
        get("/saved".to_owned()),
        put(&format!("{{\"user\":{user}}}")),
        put("{\"word\":\"long\"}"),
        get("/boom".to_owned()),
        get(format!("/login?user={user}")),
        get("/me".to_owned()),
        get("/form".to_owned()),
        ("POST", with_token("/upload"), FILES, form_with_file(user)),
        get(format!("/cookie?taste=of-{user}-{visit}")),
        get("/cookies".to_owned()),
        get("/stream".to_owned()),
        get("/teapot".to_owned()),
        get("/error".to_owned()),
        get("/warning".to_owned()),
        get(format!("/facades?user={user}")),
        get("/download".to_owned()),
        get(format!("/nowhere/{user}")),
        get(if visit % 3 == 2 { "/logout" } else { "/counter" }.to_owned()),
        get("/me".to_owned()),
    ]
}

/// The text that the third user sees in the first visit, by request: proof that the visit works.
pub const LARAVEL_SHOWS: [(usize, &str); 14] = [
    (0, "Gr\u{fc}\u{df} Gott, &lt;user 2&gt;!"),
    (1, "[[1,1],2,2]"),
    (2, "You were here 1 times."),
    (5, "Saved 3 fields."),
    (7, "The name is longer than 20."),
    (7, "value=\"somebody whose number is 2\""),
    (8, "419 "),
    (9, "{\"name\":\"user 2\",\"visit\":\"0\",\"list\":[\"a\",\"\\u00e4\"]}"),
    (11, "{\"user\":[\"The user is missing.\"],\"word\":[\"The word is longer than 3.\"]}"),
    (14, "{\"user\":\"2\",\"guest\":false}"),
    (16, "[\"of-2.bin\",\"application\\/x-test\",\"2\",36000,"),
    (18, "[\"of-2-0\",\"for of-2-0\"]"),
    (20, "418 I'm a teapot"),
    (23, "[\"2\",\"2\",\"2\",\"http:\\/\\/HOST\\/facades\",\"http:\\/\\/HOST\\/x\",true,\"en\"]"),
];

fn get(target: String) -> Step {
    ("GET", target, "", Vec::new())
}

/// Returns a field and a file whose length is unique to the user.
fn form_with_file(user: usize) -> Vec<u8> {
    let file = (0..3000 * (user as u32 + 1)).flat_map(u32::to_le_bytes);
    let head = format!(
        "--parts\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\n{user}\r\n--parts\r\nContent-Disposition: \
         form-data; name=\"file\"; filename=\"of-{user}.bin\"\r\nContent-Type: application/x-test\r\n\r\n"
    );
    head.into_bytes().into_iter().chain(file).chain(*b"\r\n--parts--\r\n").collect()
}
