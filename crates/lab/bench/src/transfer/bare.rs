//! The transports alone: an iroh stream with its own settings, and TCP. What arrives is thrown away.

use super::{cost, rate};
use crate::{error::BenchError, figures::Figures, process::own_usage};
use bytes::Bytes;
use iroh::{Endpoint, RelayMode, endpoint::presets};
use std::{net::Ipv4Addr, time::Instant};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Names of the figures.
pub(super) const IROH: &str = "bare iroh stream, MiB/s";
const IROH_COST: &str = "bare iroh stream, CPU-us per MiB";
const TCP: &str = "raw TCP, MiB/s";
const TCP_COST: &str = "raw TCP, CPU-us per MiB";

const ALPN: &[u8] = b"opengpu/bench/1";
const PART: usize = 1 << 20;

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Peer(error.to_string())
}

/// One round of both.
pub(super) async fn turn(figures: &mut Figures, size: u64) -> Result<(), BenchError> {
    let (sender, receiver) = (endpoint().await?, endpoint().await?);
    let address = sender.addr();
    let accepting = sender.clone();
    let parts = size / (1 << 20);
    let sending = tokio::spawn(async move {
        let connection = accepting.accept().await.ok_or("closed").map_err(failed)?;
        let connection = connection.await.map_err(failed)?;
        let (mut send, _receive) = connection.accept_bi().await.map_err(failed)?;
        let part = Bytes::from(vec![7; PART]);
        for _ in 0..parts {
            send.write_chunk(part.clone()).await.map_err(failed)?;
        }
        send.finish().map_err(failed)?;
        connection.closed().await;
        Ok::<(), BenchError>(())
    });
    let connection = receiver.connect(address, ALPN).await.map_err(failed)?;
    let (before, begun) = (own_usage(), Instant::now());
    let (mut send, mut receive) = connection.open_bi().await.map_err(failed)?;
    send.write_all(b"go").await.map_err(failed)?;
    let mut buffer = vec![0; PART / 4];
    while receive.read(&mut buffer).await.map_err(failed)?.is_some() {}
    figures.add(IROH, rate(size, begun));
    figures.add(IROH_COST, cost(&before, &own_usage(), size));
    connection.close(0_u8.into(), b"");
    sending.await.map_err(failed)??;
    sender.close().await;
    receiver.close().await;
    tcp(figures, size).await
}

async fn endpoint() -> Result<Endpoint, BenchError> {
    Endpoint::builder(presets::Minimal)
        .alpns(vec![ALPN.to_vec()])
        .relay_mode(RelayMode::Disabled)
        .clear_ip_transports()
        .bind_addr((Ipv4Addr::LOCALHOST, 0))
        .map_err(failed)?
        .bind()
        .await
        .map_err(failed)
}

async fn tcp(figures: &mut Figures, size: u64) -> Result<(), BenchError> {
    let system = || BenchError::system("raw TCP");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(system())?;
    let address = listener.local_addr().map_err(system())?;
    let sending = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let part = vec![7; PART];
        for _ in 0..size / (1 << 20) {
            stream.write_all(&part).await?;
        }
        stream.shutdown().await
    });
    let (before, begun) = (own_usage(), Instant::now());
    let mut stream = TcpStream::connect(address).await.map_err(system())?;
    let mut buffer = vec![0; PART / 4];
    while stream.read(&mut buffer).await.map_err(system())? > 0 {}
    figures.add(TCP, rate(size, begun));
    figures.add(TCP_COST, cost(&before, &own_usage(), size));
    sending.await.map_err(failed)?.map_err(system())
}
