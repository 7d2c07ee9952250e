//! quinn-spin server ADDRESS on|off
//! quinn-spin client ADDRESS on|off SECONDS
//!
//! The client sends a datagram every millisecond and the server returns it, so that packets pass all the time. With "on",
//! quinn spins on seven of eight connections (RFC 9000 §17.4); with "off", and on the eighth, the bit is random.

use anyhow::{bail, Context, Result};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::{env, net::SocketAddr, sync::Arc, time::Duration};

const ALPN: &[u8] = b"spin";
const INTERVAL: Duration = Duration::from_millis(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["server", address, spin] => serve(address.parse()?, transport(spin)?).await,
        ["client", address, spin, seconds] => {
            call(address.parse()?, transport(spin)?, Duration::from_secs_f64(seconds.parse()?)).await
        }
        _ => bail!("usage: quinn-spin server ADDRESS on|off, or quinn-spin client ADDRESS on|off SECONDS"),
    }
}

fn transport(spin: &str) -> Result<Arc<TransportConfig>> {
    let mut config = TransportConfig::default();
    match spin {
        "on" => config.allow_spin(true),
        "off" => config.allow_spin(false),
        _ => bail!("{spin:?} is neither on nor off"),
    };
    Ok(Arc::new(config))
}

async fn serve(address: SocketAddr, transport: Arc<TransportConfig>) -> Result<()> {
    let identity = rcgen::generate_simple_self_signed(vec!["spin.test".into()])?;
    let key = PrivatePkcs8KeyDer::from(identity.key_pair.serialize_der());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert.into()], key.into())?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport);
    let endpoint = Endpoint::server(config, address)?;
    println!("listening");
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            loop {
                connection.send_datagram(connection.read_datagram().await?)?;
            }
            #[allow(unreachable_code)]
            anyhow::Ok(())
        });
    }
    Ok(())
}

async fn call(address: SocketAddr, transport: Arc<TransportConfig>, length: Duration) -> Result<()> {
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport);
    let mut endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(address, "spin.test")?.await.context("connect")?;
    let mut ticks = tokio::time::interval(INTERVAL);
    let end = tokio::time::Instant::now() + length;
    while ticks.tick().await < end {
        connection.send_datagram(vec![0; 100].into())?;
    }
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The server is found by its address; what it is called does not matter here.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self, _: &CertificateDer<'_>, _: &[CertificateDer<'_>], _: &ServerName<'_>, _: &[u8], _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self, _: &[u8], _: &CertificateDer<'_>, _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self, _: &[u8], _: &CertificateDer<'_>, _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
