//! Moves: what each party may do next, given what it knows.

use crate::bugs::Bug;
use crate::parties::{Action, Kind, World};
use crate::rules::Input;
use crate::set::Set;
use crate::state::{
    Answer, BEGINNING, Challenger, Dispute, ITEMS, Phase, Place, SEGMENTS, Turn, VERIFIERS,
};

impl World {
    /// Everything that may happen.
    pub fn actions(&self, bug: Option<Bug>, actions: &mut Vec<Action>) {
        self.repeat(actions);
        if self.chain.phase == Phase::Closed {
            return;
        }
        self.provider(bug, actions);
        for verifier in 0..VERIFIERS {
            self.verifier(verifier, bug, actions);
        }
        self.client(actions);
        if let Phase::Disputing(dispute) = self.chain.phase {
            self.challenger(dispute, actions);
        }
        if self.chain.phase == Phase::Again {
            actions.extend([true, false].map(|chosen| Action::Chain(Input::Lottery(chosen))));
        }
        if !self.waits() {
            actions.push(Action::Chain(Input::Ticked));
        }
    }

    /// What was said already comes again.
    fn repeat(&self, actions: &mut Vec<Action>) {
        let mut again = |input| actions.push(Action::Chain(input));
        let chain = &self.chain;
        if chain.draws > 0 {
            again(Input::Committed(chain.faked));
        }
        if !chain.posted.is_empty() {
            again(Input::Posted);
        }
        if !chain.open.is_empty() {
            again(Input::Opened);
        }
        for verifier in 0..VERIFIERS {
            let seat = chain.seat(verifier);
            if let Some(answer) = seat.answer {
                again(Input::Answered(verifier, answer));
            }
            if seat.revealed {
                again(Input::Revealed(verifier));
            }
        }
        if let Phase::Disputing(Dispute { round, .. }) = chain.phase {
            // The interval of that number need not be wrong among the points of this round.
            for earlier in 0..round {
                again(Input::Named(earlier, Place::Nowhere));
            }
        }
        if chain.settlements > 0 {
            again(Input::Asked);
        }
    }

    fn provider(&self, bug: Option<Bug>, actions: &mut Vec<Action>) {
        if self.down {
            actions.push(Action::Rise);
            return;
        }
        let honest = self.cast.provider;
        if honest && self.crashes > 0 {
            actions.push(Action::Fall);
        }
        let mut say = |input| actions.push(Action::Chain(input));
        match self.chain.phase {
            Phase::Running | Phase::Stopping => {
                say(Input::Committed(None));
                if !honest {
                    say(Input::Released);
                    (0..ITEMS).for_each(|item| say(Input::Committed(Some(item))));
                }
            }
            Phase::Answering => {
                if bug == Some(Bug::OpenedBeforeSeals) {
                    say(Input::Opened);
                }
                if bug == Some(Bug::CommittedAgain) && !honest {
                    say(Input::Committed(None));
                }
                self.serve(actions);
            }
            Phase::Posting => say(Input::Posted),
            Phase::Opening => say(Input::Opened),
            Phase::Disputing(Dispute { turn: Turn::Provider, round, .. }) => {
                say(Input::Stated(round, Place::Nowhere));
                if !honest {
                    say(Input::Stated(round, Place::Steps));
                    say(Input::Stated(round, Place::Closing));
                }
            }
            _ => {}
        }
    }

    /// Whom the provider serves, and with what; only honest verifiers depend on it.
    fn serve(&self, actions: &mut Vec<Action>) {
        for verifier in self.honest_drawn().each() {
            let wanted = self.chain.duty(verifier).and(SEGMENTS);
            if self.chain.seat(verifier).answer.is_some() || self.served(verifier).is_some() {
                continue;
            }
            if !self.cast.provider {
                actions.extend(wanted.parts().map(|part| Action::Serve(verifier, part)));
                continue;
            }
            actions.push(Action::Serve(verifier, wanted));
            if self.losses > 0 {
                actions.push(Action::Lose(verifier));
            }
        }
    }

    /// Honest verifiers of the running draw.
    fn honest_drawn(&self) -> Set {
        let drawn = (0..VERIFIERS).filter(|it| !self.chain.duty(*it).is_empty());
        drawn.filter(|it| self.cast.kind(*it) == Kind::Honest).collect()
    }

    fn verifier(&self, verifier: u8, bug: Option<Bug>, actions: &mut Vec<Action>) {
        let asked = self.chain.asked(verifier);
        let seat = self.chain.seat(verifier);
        match (self.chain.phase, seat.answer) {
            (Phase::Answering, _) if !asked.is_empty() => {
                let answers = self.answers(verifier, asked, bug);
                if self.served(verifier).is_some() && self.crashes > 0 {
                    actions.push(Action::Crash(verifier));
                }
                let said = answers.into_iter().map(|it| Input::Answered(verifier, it));
                actions.extend(said.map(Action::Chain));
            }
            (Phase::Revealing, Some(_)) => actions.push(Action::Chain(Input::Revealed(verifier))),
            _ => {}
        }
    }

    /// What a verifier may answer.
    fn answers(&self, verifier: u8, duty: Set, bug: Option<Bug>) -> Vec<Answer> {
        let abstained = duty.and(SEGMENTS);
        // What is posted is there for everybody.
        let posted = !self.chain.seat(verifier).again.is_empty();
        let unserved = Answer { abstained, sealed: Set::NONE, wrong: Set::NONE };
        match self.cast.kind(verifier) {
            Kind::Honest => self
                .served(verifier)
                .filter(|_| !posted)
                .or_else(|| posted.then_some(SEGMENTS))
                .map(|served| self.executed(duty, served, bug))
                .into_iter()
                .collect(),
            Kind::Lazy => {
                let guessed = duty.without(self.chain.open);
                let answer = Answer { sealed: duty, wrong: guessed, ..Answer::default() };
                vec![answer, unserved]
            }
            Kind::False => {
                let agrees = Answer { sealed: duty, ..Answer::default() };
                let objects = duty.each().map(Set::one);
                let objects = objects.map(|item| Answer { wrong: item, ..agrees });
                [agrees, unserved].into_iter().chain(objects).collect()
            }
        }
    }

    /// What an honest verifier says: its own execution of what it was served, and of the beginning.
    fn executed(&self, duty: Set, served: Set, bug: Option<Bug>) -> Answer {
        let sealed = duty.and(served.or(BEGINNING));
        let differs = match bug {
            Some(Bug::FuelInAnswers) => SEGMENTS,
            _ => self.chain.faked.map_or(Set::NONE, Set::one),
        };
        Answer { abstained: duty.without(sealed), sealed, wrong: differs.and(sealed) }
    }

    fn client(&self, actions: &mut Vec<Action>) {
        let honest = self.cast.client;
        let mut say = |input| actions.push(Action::Chain(input));
        match self.chain.phase {
            Phase::Running if !honest => say(Input::Cancelled),
            Phase::Objecting => {
                // An honest client objects only to what is false, by its own check, or not at all.
                let item = if honest { self.chain.faked } else { Some(1) };
                item.into_iter().for_each(|item| say(Input::Objected(item)));
                say(Input::Asked);
            }
            Phase::Decided if honest => say(Input::Asked),
            _ => {}
        }
    }

    /// Who runs nothing cannot tell which interval is wrong, and has no unit to show.
    fn challenger(&self, dispute: Dispute, actions: &mut Vec<Action>) {
        let Dispute { round, turn, wrong, by, .. } = dispute;
        let kind = self.challenger_kind(by);
        let mut say = |input| actions.push(Action::Chain(input));
        match turn {
            Turn::Provider => {}
            Turn::Challenger => {
                if kind != Kind::Lazy {
                    say(Input::Named(round, wrong));
                }
                if kind != Kind::Honest && (kind == Kind::Lazy || wrong != Place::Nowhere) {
                    say(Input::Named(round, Place::Nowhere));
                }
            }
            Turn::Step if kind != Kind::Lazy => say(Input::Shown),
            Turn::Step => {}
        }
    }

    fn challenger_kind(&self, by: Challenger) -> Kind {
        match by {
            Challenger::Verifier(verifier) => self.cast.kind(verifier),
            Challenger::Client if self.cast.client => Kind::Honest,
            Challenger::Client => Kind::False,
        }
    }

    /// Whether an honest party has still something to say before the deadline.
    fn waits(&self) -> bool {
        let chain = &self.chain;
        let mut drawn = self.honest_drawn().each();
        match chain.phase {
            Phase::Running | Phase::Stopping | Phase::Posting | Phase::Opening => {
                self.cast.provider
            }
            Phase::Answering => drawn.any(|it| !chain.asked(it).is_empty()),
            Phase::Revealing => drawn.any(|it| {
                let seat = chain.seat(it);
                !seat.revealed && seat.answer.is_some_and(|answer| !answer.sealed.is_empty())
            }),
            Phase::Disputing(Dispute { turn: Turn::Provider, .. }) => self.cast.provider,
            Phase::Disputing(Dispute { by, .. }) => self.challenger_kind(by) == Kind::Honest,
            Phase::Again => true,
            Phase::Objecting | Phase::Decided | Phase::Closed => false,
        }
    }
}
