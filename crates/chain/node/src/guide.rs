//! What nodes tell each other about where the chain is: where they stand, and the steps of epochs.
//!
//! Two questions, each answered at once from what the node has at hand:
//!
//! | question | answer | who asks |
//! |---|---|---|
//! | where do you stand? | the running epoch and view, and the asker's newest vote | the sign guard ([`crate::guard`]) |
//! | which steps follow epoch e? | a few [`Step`]s, and the newest certificate | a joining node ([`crate::join`]) |
//!
//! An answer of the first kind is one seat's word; the guard knows how far to believe it. Steps and
//! certificates are signed by quorums. A node that itself just begins answers too, that it knows
//! nothing: its peers need not wait for more.

use crate::{
    committee::consensus_key,
    steps::{MAX_CERTIFICATE, Step, Steps, StepsError, read_certificate},
    turn::{Standing, Turn},
};
use bytes::{BufMut, Bytes};
use commonware_codec::{
    Buf, DecodeExt as _, Encode as _, EncodeSize, Error, Read, ReadExt as _, Write,
};
use commonware_cryptography::ed25519::PublicKey;
use commonware_macros::select_loop;
use commonware_p2p::{Blocker, Receiver, Recipients, Sender};
use commonware_runtime::{Clock, Handle, Metrics, Spawner, Storage};
use commonware_utils::channel::mpsc;
use opengpu_types::{Epoch, List};

/// Steps in one answer.
pub const MAX_STEPS: usize = 16;
/// Steps of more bytes than this go in several answers. One step always fits.
const USUAL_BYTES: usize = 128 * 1024;
/// Largest message.
pub const MAX_BYTES: usize = USUAL_BYTES + MAX_CERTIFICATE + 64;
/// Questions and answers that may wait inside a node.
const BACKLOG: usize = 256;

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Where do you stand?
    WantStanding,
    /// Here; nowhere if no epoch runs yet.
    Standing(Option<Standing>),
    /// Which steps lead on from this epoch?
    WantSteps(Epoch),
    /// These; and the newest certificate of the running epoch.
    Steps {
        /// In order, from the epoch that was asked for.
        steps: List<Step, MAX_STEPS>,
        /// Encoded; empty if there is none.
        head: Vec<u8>,
    },
}

impl Write for Message {
    fn write(&self, buffer: &mut impl BufMut) {
        match self {
            Self::WantStanding => buffer.put_u8(0),
            Self::Standing(standing) => {
                buffer.put_u8(1);
                standing.write(buffer);
            }
            Self::WantSteps(epoch) => {
                buffer.put_u8(2);
                epoch.write(buffer);
            }
            Self::Steps { steps, head } => {
                buffer.put_u8(3);
                steps.write(buffer);
                head.write(buffer);
            }
        }
    }
}

impl EncodeSize for Message {
    fn encode_size(&self) -> usize {
        let body = match self {
            Self::WantStanding => 0,
            Self::Standing(standing) => standing.encode_size(),
            Self::WantSteps(epoch) => epoch.encode_size(),
            Self::Steps { steps, head } => steps.encode_size().saturating_add(head.encode_size()),
        };
        body.saturating_add(1)
    }
}

impl Read for Message {
    type Cfg = ();

    fn read_cfg(buffer: &mut impl Buf, (): &()) -> Result<Self, Error> {
        match u8::read(buffer)? {
            0 => Ok(Self::WantStanding),
            1 => Ok(Self::Standing(Option::<Standing>::read(buffer)?)),
            2 => Ok(Self::WantSteps(Epoch::read(buffer)?)),
            3 => {
                let steps = List::read(buffer)?;
                Ok(Self::Steps { steps, head: read_certificate(buffer)? })
            }
            tag => Err(Error::InvalidEnum(tag)),
        }
    }
}

/// A peer's answer.
pub type Answer = (PublicKey, Message);

/// Asks peers, and hears their answers. For one asker at a time.
#[derive(Debug)]
pub struct Guide {
    questions: mpsc::Sender<(Recipients<PublicKey>, Message)>,
    answers: mpsc::Receiver<Answer>,
}

impl Guide {
    /// Sends a question; without an answer it must be asked again.
    pub fn ask(&self, recipients: Recipients<PublicKey>, question: Message) {
        // A full queue is as good as a lost message.
        let _ = self.questions.try_send((recipients, question));
    }

    /// The next answer; `None` when the node stops.
    pub async fn answer(&mut self) -> Option<Answer> {
        self.answers.recv().await
    }
}

/// What answers are made of.
pub struct Config<E: Clock + Metrics + Spawner + Storage, B> {
    /// Where consensus is.
    pub turn: Turn,
    /// The steps that this node holds.
    pub steps: Steps<E>,
    /// Cuts off peers that misbehave.
    pub blocker: B,
}

/// Starts to answer peers, and to ask them.
pub fn start<E, B, S, R>(context: E, config: Config<E, B>, channel: (S, R)) -> (Guide, Handle<()>)
where
    E: Clock + Metrics + Spawner + Storage,
    B: Blocker<PublicKey = PublicKey>,
    S: Sender<PublicKey = PublicKey>,
    R: Receiver<PublicKey = PublicKey>,
{
    let (questions, asked) = mpsc::channel(BACKLOG);
    let (told, answers) = mpsc::channel(BACKLOG);
    let handle = context.spawn(move |context| {
        let (sender, receiver) = channel;
        let desk = Desk { context, config, sender, asked, told };
        desk.run(receiver)
    });
    (Guide { questions, answers }, handle)
}

struct Desk<E: Clock + Metrics + Spawner + Storage, B, S> {
    context: E,
    config: Config<E, B>,
    sender: S,
    asked: mpsc::Receiver<(Recipients<PublicKey>, Message)>,
    told: mpsc::Sender<Answer>,
}

impl<E, B, S> Desk<E, B, S>
where
    E: Clock + Metrics + Spawner + Storage,
    B: Blocker<PublicKey = PublicKey>,
    S: Sender<PublicKey = PublicKey>,
{
    async fn run(mut self, mut receiver: impl Receiver<PublicKey = PublicKey>) {
        select_loop! {
            self.context,
            on_stopped => {},
            Some((recipients, question)) = self.asked.recv() else {
                return;
            } => {
                let _ = self.sender.send(recipients, question.encode(), true);
            },
            message = receiver.recv() => {
                let Ok((peer, bytes)) = message else { return };
                self.hear(peer, bytes.into()).await;
            },
        }
    }

    async fn hear(&mut self, peer: PublicKey, bytes: Bytes) {
        let Ok(message) = Message::decode(bytes) else {
            tracing::warn!(%peer, "a peer asks for nothing that there is");
            let _ = self.config.blocker.block(peer);
            return;
        };
        let answer = match message {
            Message::WantStanding => {
                Message::Standing(self.config.turn.standing(&consensus_key(&peer)))
            }
            Message::WantSteps(first) => match self.steps(first).await {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::warn!(%error, "a peer's question stays unanswered");
                    return;
                }
            },
            // Nobody waits for answers for long, and then they are of no use.
            answer => return drop(self.told.try_send((peer, answer))),
        };
        // Steps are bulk: they must not overtake votes.
        let urgent = matches!(answer, Message::Standing(_));
        let _ = self.sender.send(Recipients::One(peer), answer.encode(), urgent);
    }

    async fn steps(&mut self, first: Epoch) -> Result<Message, StepsError> {
        let most = u64::try_from(MAX_STEPS).unwrap_or(u64::MAX);
        let mut steps = self.config.steps.range(first, first.plus(most)).await?;
        let mut bytes = 0_usize;
        steps.retain(|step| {
            bytes = bytes.saturating_add(step.encode_size());
            bytes <= USUAL_BYTES
        });
        let head = self.config.turn.head();
        Ok(Message::Steps {
            steps: List::new(steps).unwrap_or_else(|_| List::empty()),
            head: head.map_or_else(Vec::new, |head| head.encode().to_vec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::View;

    #[test]
    fn messages_read_back_as_they_were_written() {
        let standing = Standing { epoch: Epoch(3), view: View(9), heard: View(8) };
        let steps = Message::Steps { steps: List::empty(), head: vec![1, 2] };
        for message in [
            Message::WantStanding,
            Message::Standing(None),
            Message::Standing(Some(standing)),
            Message::WantSteps(Epoch(7)),
            steps,
        ] {
            let bytes = message.encode();
            assert_eq!(bytes.len(), message.encode_size());
            assert_eq!(Message::decode(bytes).unwrap(), message);
        }
        assert!(Message::decode(Bytes::from_static(&[9])).is_err());
    }
}
