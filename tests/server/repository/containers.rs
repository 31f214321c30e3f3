//! The Dockerfile and the compose files of docs/containers.md, as far as they can be tried without a container.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use svc_testing::{Svc, binary, written};

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// Returns the blocks of the page in this language.
fn blocks(language: &str) -> Vec<String> {
    let page = file("docs/containers.md");
    let fence = format!("\n```{language}\n");
    let blocks = page.split(&fence).skip(1);
    blocks.map(|block| block.split_once("\n```").unwrap().0.to_owned()).collect()
}

/// Returns the words of the last instruction of this name, which has a list in JSON.
fn words(file: &str, instruction: &str) -> Vec<String> {
    let line = file.lines().rev().find_map(|line| line.strip_prefix(instruction)).unwrap();
    serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap()
}

/// Returns the variables that a Dockerfile sets.
fn variables(file: &str) -> Vec<(String, String)> {
    let lines = file.lines().filter_map(|line| line.strip_prefix("ENV "));
    let settings = lines.flat_map(str::split_whitespace).map(|setting| setting.split_once('=').unwrap());
    settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The image and the application on top of it run with the same variables and commands, in a directory in place of `/app`.
#[test]
fn the_image_of_an_application_serves_it_and_is_healthy() {
    let (image, own) = (file("deploy/Containerfile"), blocks("dockerfile").remove(0));
    let root = written(&[("public/index.html", "the application")]);
    let app = root.path().to_str().unwrap().to_owned();
    let mut settings = variables(&image);
    settings.extend(variables(&own));
    let mut command = Command::new(binary());
    command.env_clear().args(words(&own, "CMD ")).stdin(Stdio::null());
    for (name, value) in &settings {
        command.env(name, value.replace("/app", &app));
    }
    // Without PHP, and on free ports.
    command.envs([("EXECUTOR", "stub"), ("LISTEN_ADDR", "127.0.0.1:0"), ("INTERNAL_ADDR", "127.0.0.1:0")]);
    command.env_remove("ENTRY_FILE");
    let svc = Svc::spawn(root, command);
    assert_eq!(svc.get("/").text(), "the application");
    let check = words(&image, "HEALTHCHECK ");
    assert_eq!(check[0], "svc");
    let healthy = Command::new(binary())
        .args(&check[1..])
        .env_clear()
        .env("INTERNAL_ADDR", svc.ops().to_string())
        .status();
    assert!(healthy.unwrap().success());
}

/// podman and buildah write the format of OCI by default, which has no HEALTHCHECK: they ignore that instruction with a warning.
#[test]
fn each_builder_keeps_the_health_check() {
    for builder in ["podman", "docker", "buildah"] {
        let bin = written(&[
            (builder, "#!/bin/sh\n[ $1 = info ] || echo \"$@\"\n"),
            ("dpkg-deb", "#!/bin/sh\necho libc6\n"),
            ("svc.deb", ""),
        ]);
        for other in ["podman", "docker", "buildah"].iter().filter(|other| **other != builder) {
            fs::write(bin.path().join(other), "#!/bin/sh\nexit 1\n").unwrap();
        }
        for file in fs::read_dir(bin.path()).unwrap() {
            fs::set_permissions(file.unwrap().path(), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/image.sh");
        let output = Command::new(script)
            .arg(bin.path().join("svc.deb"))
            .env("PATH", format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap()))
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.starts_with("build "), "{builder}: {said}");
        assert_eq!(said.contains("--format docker"), builder != "docker", "{said}");
    }
    assert!(file("docs/containers.md").contains("--format docker"));
}

#[test]
fn variables_and_options_of_the_page_exist() {
    let known = file("docs/settings.md");
    let mut lines: Vec<String> = blocks("yaml")
        .iter()
        .flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines.extend(variables(&blocks("dockerfile")[0]).into_iter().map(|(name, _)| format!("      {name}:")));
    let mut named = 0;
    for line in lines {
        let Some((name, _)) = line.trim().split_once(':') else { continue };
        let is_variable = name.contains('_') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        if is_variable && !name.starts_with("MARIADB_") && name != "DATABASE_URL" {
            named += 1;
            assert!(known.contains(&format!("`{name}`")), "{name}");
        }
    }
    assert!(named >= 9, "{named}");
    let help = Command::new(binary()).args(["help", "dev"]).output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("--host"));
}

#[test]
fn the_compose_files_are_yaml() {
    for block in blocks("yaml") {
        let code = "import sys, yaml; services = yaml.safe_load(sys.stdin)['services']; assert 'app' in services; \
                    assert all(isinstance(v, str) for v in services['app']['environment'].values())";
        let python = Command::new("python3").args(["-c", code]).stdin(Stdio::piped()).spawn();
        let Ok(mut python) = python else { return };
        std::io::Write::write_all(&mut python.stdin.take().unwrap(), block.as_bytes()).unwrap();
        assert!(python.wait().unwrap().success(), "{block}");
    }
}
