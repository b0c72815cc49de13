//! Planted bugs: the rules with one thing left out. Each must break a property, or the property proves nothing.

/// Declares the bugs, the list of all, and what each is called.
macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident: $told:literal,)*) => {
        /// A rule that is left out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What it does, in a few words.
            pub const fn told(self) -> &'static str {
                match self {
                    $(Self::$name => $told,)*
                }
            }
        }
    };
}

bugs! {
    /// Whoever asks for settlement before the verdict gets it.
    PaidWithoutVerdict: "payment without a verdict",
    /// A closed lease is settled again when it is asked for.
    SettledTwice: "settled as often as it is asked for",
    /// Upheld work is settled when the client asks for it, and at no deadline.
    UndisputedUnpaid: "undisputed work is paid only if the client asks",
    /// A dissection has no clock.
    EndlessDispute: "a dispute without a clock",
    /// Another commitment takes the place of the first while verifiers answer.
    CommittedAgain: "a commitment may be replaced",
    /// An objection that is lost stays, and is heard again.
    HeardAgain: "a lost objection is heard again",
    /// What is refuted is paid nevertheless.
    RefutedPaid: "refuted work is paid",
    /// Without a sealed segment there is nothing to open, so the answer to the beginning is dropped.
    BeginningDropped: "a sealed objection to the beginning needs a sealed segment",
    /// Nobody runs the beginning.
    BeginningSkipped: "the beginning is not run again",
    /// What was opened and not checked is drawn again itself, instead of another segment.
    OpenedDrawnAgain: "an opened leaf is drawn again",
    /// Leaves may be opened while verifiers still seal.
    OpenedBeforeSeals: "leaves are opened before answers are sealed",
    /// What was not served does not count, as long as something else was checked.
    UnservedUpheld: "what was not served is not drawn again",
    /// One fresh verifier that says it was not served refutes.
    OneSilenceRefutes: "one fresh verifier that finds silence refutes",
    /// Abstentions are told with the reveals, so leaves of what nobody sealed are opened.
    AbstainedLate: "abstentions are public after leaves are open",
    /// A verifier that says nothing agrees.
    UncheckedUpheld: "not checked is upheld",
    /// An answer that is not the leaf refutes at once.
    SlashedWithoutReferee: "an objection slashes without the referee",
    /// The answers of the fresh verifiers are votes.
    Voted: "a vote decides where a referee could",
    /// Answers and points have fuel in them, which each engine counts in its own way.
    FuelInAnswers: "fuel in answers and points",
    /// The referee does not look at what the closing makes.
    ClosingUndecided: "the closing does not decide bytes out",
    /// A step that the challenger does not show counts against the provider.
    StepNotShown: "the challenger need not show the step",
    /// A move does not say which round it is for.
    MovesWithoutRound: "a repeated move counts in the next round",
    /// The same answer counts as often as it comes.
    CountedTwice: "a repeated answer counts twice",
    /// An objection that is lost shows that the item is right.
    LostDisputeChecks: "a lost objection counts as a check",
    /// An objection that is lost takes all others to the same item with it.
    FirstObjectorOnly: "a lost objection ends all others",
    /// The share of the verifiers in a slash is divided among all that were drawn.
    EveryVerifierShares: "all drawn verifiers share a slash",
    /// Whoever objected to what was refuted earns a fee, heard or not.
    EveryObjectorPaid: "every objector to what is refuted is paid",
    /// Once the claim is at stake, not ten times.
    SmallStake: "the claim is at stake once",
    /// Client and finder divide a slash, and no part of it is burned.
    NothingBurned: "no part of a slash is burned",
    /// Fees of verifiers come from nowhere.
    FeesMinted: "verifiers are not paid out of the pay",
}
