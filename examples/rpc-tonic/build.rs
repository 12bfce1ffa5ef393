//! The services, described here so that no protoc is needed.

use tonic_build::manual::{Builder, Method, Service};

enum Streams {
    None,
    Client,
    Server,
    Both,
}

fn method(message: &str, name: &str, route: &str, streams: &Streams) -> Method {
    let method = Method::builder()
        .name(name)
        .route_name(route)
        .input_type(message)
        .output_type(message)
        .codec_path("tonic_prost::ProstCodec");
    match streams {
        Streams::None => method,
        Streams::Client => method.client_streaming(),
        Streams::Server => method.server_streaming(),
        Streams::Both => method.client_streaming().server_streaming(),
    }
    .build()
}

fn main() {
    let service = |name: &str, message: &str, methods: &[(&str, &str, Streams)]| {
        let service = Service::builder().name(name).package("bank");
        let methods = methods.iter();
        methods
            .fold(service, |service, (name, route, streams)| {
                service.method(method(message, name, route, streams))
            })
            .build()
    };
    Builder::new().compile(&[
        service(
            "Accounts",
            "crate::Amount",
            &[
                ("read", "Read", Streams::None),
                ("write", "Write", Streams::None),
                ("history", "History", Streams::Server),
            ],
        ),
        service(
            "Teller",
            "crate::Amount",
            &[
                ("pay", "Pay", Streams::None),
                ("collect", "Collect", Streams::Client),
                ("convert", "Convert", Streams::Both),
            ],
        ),
        service("Echo", "crate::Amount", &[("echo", "Echo", Streams::None)]),
        service(
            "Work",
            "crate::Numbers",
            &[
                ("ask", "Ask", Streams::None),
                ("flow", "Flow", Streams::Both),
            ],
        ),
    ]);
}
