//! Encryption, and verification of the server.

use baton_store::{PgOptions, PgStore};

use crate::postgres_server::OwnServer;

/// A server that takes encrypted connections only, with a password; it answers for `localhost`.
fn server() -> OwnServer {
    let server = OwnServer::prepare(&["ssl=on", "ssl_cert_file=../server.pem", "ssl_key_file=../server.key"]);
    for name in ["server", "stranger"] {
        let made = server
            .command("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "2",
            ])
            .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    server.up();
    server.run("CREATE ROLE guarded LOGIN PASSWORD 'hunter2'; GRANT ALL ON SCHEMA public TO guarded");
    let rules = "hostssl all guarded 127.0.0.1/32 scram-sha-256\nhost all baton 127.0.0.1/32 trust\n";
    std::fs::write(server.folder.join("data/pg_hba.conf"), rules).unwrap();
    server.run("SELECT pg_reload_conf()");
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_encrypted_and_its_server_checked_as_the_address_says() {
    let (server, folder) = (server(), tempfile::tempdir().unwrap());
    let connect = async |host: &str, password: &str, rest: &str| {
        let url = format!("postgres://guarded:{password}@{host}:{}/postgres?{rest}", server.port);
        let connected = PgStore::connect(&url, PgOptions::new(folder.path())).await;
        connected.map(drop).map_err(|error| {
            let told = format!("{error} {error:?}");
            assert!(!told.contains(password), "{told}");
            error.to_string()
        })
    };
    let file = |name: &str| format!("sslmode=verify-full&sslrootcert={}", server.folder.join(name).display());

    assert_eq!(connect("localhost", "hunter2", "sslmode=require").await, Ok(()));
    assert_eq!(connect("127.0.0.1", "hunter2", "").await, Ok(()), "preferred where nothing is said");
    assert_eq!(connect("localhost", "hunter2", &file("server.pem")).await, Ok(()));

    let plain = connect("localhost", "hunter2", "sslmode=disable").await.unwrap_err();
    assert!(plain.contains("no encryption") && plain.contains("28000"), "{plain}");
    let stranger = connect("localhost", "hunter2", &file("stranger.pem")).await.unwrap_err();
    assert!(stranger.contains("invalid peer certificate"), "{stranger}");
    let other_name = connect("127.0.0.1", "hunter2", &file("server.pem")).await.unwrap_err();
    assert!(other_name.contains("not valid for"), "{other_name}");
    let unknown = connect("localhost", "hunter2", "sslmode=verify-full").await.unwrap_err();
    assert!(unknown.contains("invalid peer certificate") || unknown.contains("no certificates"), "{unknown}");
    let nothing = connect("localhost", "hunter2", &file("missing.pem")).await.unwrap_err();
    assert!(nothing.starts_with("TLS with the database cannot be set up: sslrootcert"), "{nothing}");
    let wrong = connect("localhost", "swordfish", "sslmode=require").await.unwrap_err();
    assert!(wrong.contains("password authentication failed"), "{wrong}");
}
