//! Telling what happens, beside work that may wait for a node for long.

use crate::attend::Happening;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

/// Whoever is told of what happens to a lease.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(u8, Happening);

/// Does some work, and tells what happens meanwhile: whatever the work waits for, nobody waits for it.
pub(crate) fn tell_beside<T: Send>(
    runtime: &Runtime,
    mut heard: mpsc::Receiver<(u8, Happening)>,
    tell: Tell<'_>,
    work: impl FnOnce() -> T + Send,
) -> T {
    std::thread::scope(|scope| {
        let (over, mut done) = oneshot::channel::<()>();
        let working = scope.spawn(move || {
            // It ends with the work, however that ends.
            let _over = over;
            work()
        });
        let next = async |heard: &mut mpsc::Receiver<_>, done: &mut oneshot::Receiver<()>| {
            tokio::select! {
                biased;
                happening = heard.recv() => happening,
                _ = done => None,
            }
        };
        while let Some((lease, happening)) = runtime.block_on(next(&mut heard, &mut done)) {
            tell(lease, happening);
        }
        // Whoever still has something to say does not wait for us.
        heard.close();
        let ended = working.join();
        while let Ok((lease, happening)) = heard.try_recv() {
            tell(lease, happening);
        }
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::companion::Listener;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn news_of_a_lease_do_not_wait_for_a_node_that_does_not_answer() {
        // It takes connections and says nothing.
        let mut listener = Some(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let rpc = opengpu_client::Rpc::new(&format!(
            "http://{}",
            listener.as_ref().unwrap().local_addr().unwrap()
        ));
        let runtime = Runtime::new().unwrap();
        let (happened, heard) = mpsc::channel(4);
        let said = Listener { lease: 3, happened };
        runtime.spawn(async move { said.tell(Happening::Briefed).await });
        let (answered, mut told) = (AtomicBool::new(false), Vec::new());
        let mut tell = |lease, happening| {
            assert!(!answered.load(Ordering::SeqCst), "it waited for the node");
            told.push((lease, happening));
            // Now the node goes away for good, and the work ends.
            drop(listener.take().unwrap().accept().unwrap());
        };
        let ended = tell_beside(&runtime, heard, &mut tell, || {
            let ended = rpc.status().is_err();
            answered.store(true, Ordering::SeqCst);
            ended
        });
        assert!(ended);
        assert_eq!(told, [(3, Happening::Briefed)]);
    }
}
