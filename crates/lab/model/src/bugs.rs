//! Planted bugs: the rules with one thing left out.
//!
//! Each names the property that it must break, and is hunted by that one alone; a property that no bug breaks
//! may hold of anything.

/// Declares the bugs, the list of all, what each is called, and what it breaks.
macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident: $told:literal => $broken:literal,)*) => {
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

            /// The property that it must break.
            pub const fn breaks(self) -> &'static str {
                match self {
                    $(Self::$name => $broken,)*
                }
            }
        }
    };
}

bugs! {
    /// Whoever asks for settlement before the verdict gets it.
    PaidWithoutVerdict: "payment without a verdict" =>
        "no payment without a verdict",
    /// A closed lease is settled again when it is asked for.
    SettledTwice: "settled as often as it is asked for" =>
        "settlement happens exactly once",
    /// Upheld work is settled when the client asks for it, and at no deadline.
    UndisputedUnpaid: "undisputed work is paid only if the client asks" =>
        "every lease ends",
    /// A dissection has no clock.
    EndlessDispute: "a dispute without a clock" =>
        "every dispute ends",
    /// Another commitment takes the place of the first while verifiers answer.
    CommittedAgain: "a commitment may be replaced" =>
        "an honest verifier never loses, and is paid",
    /// An objection that is lost stays, and is heard again.
    HeardAgain: "a lost objection is heard again" =>
        "all that happens takes the lease further",
    /// What is refuted is paid nevertheless.
    RefutedPaid: "refuted work is paid" =>
        "false work that is found is never paid",
    /// Without a sealed segment there is nothing to open, so the answer to the beginning is dropped.
    BeginningDropped: "a sealed objection to the beginning needs a sealed segment" =>
        "what is false and run by somebody honest is refuted",
    /// Nobody runs the beginning.
    BeginningSkipped: "the beginning is not run again" =>
        "what nobody answered is not upheld",
    /// What was opened and not checked is drawn again itself, instead of another segment.
    OpenedDrawnAgain: "an opened leaf is drawn again" =>
        "a verifier that runs nothing gains nothing",
    /// Leaves may be opened while verifiers still seal.
    OpenedBeforeSeals: "leaves are opened before answers are sealed" =>
        "a verifier that runs nothing gains nothing",
    /// What the first verifiers do not answer is not drawn again, and the lease ends without pay.
    DrawnOnce: "what is not answered is inconclusive at once" =>
        "honest work is paid",
    /// What was not served does not count, as long as something else was checked.
    UnservedUpheld: "what was not served is not drawn again" =>
        "what is false and drawn for somebody honest is not upheld",
    /// Two fresh verifiers that say they were not served refute.
    SilenceRefutes: "two of three who find silence refute" =>
        "an honest provider is never slashed",
    /// What fresh verifiers were not served need not be posted.
    NotPosted: "what others were not served is not posted" =>
        "what is false and drawn for somebody honest is not upheld",
    /// Whoever was not served may say so again when it is posted.
    DeniedAgain: "what is posted may be denied again" =>
        "all that happens takes the lease further",
    /// Abstentions are told with the reveals, so leaves of what nobody sealed are opened.
    AbstainedLate: "abstentions are public after leaves are open" =>
        "what is false and drawn for somebody honest is not upheld",
    /// A verifier that says nothing agrees.
    UncheckedUpheld: "not checked is upheld" =>
        "what nobody answered is not upheld",
    /// An answer that is not the leaf refutes at once.
    SlashedWithoutReferee: "an objection slashes without the referee" =>
        "an honest provider is never slashed",
    /// The answers of the fresh verifiers are votes.
    Voted: "a vote decides where a referee could" =>
        "what is false and run by somebody honest is refuted",
    /// Answers and points have fuel in them, which each engine counts in its own way.
    FuelInAnswers: "fuel in answers and points" =>
        "an honest provider is never slashed",
    /// The referee does not look at what the closing makes.
    ClosingUndecided: "the closing does not decide bytes out" =>
        "what is false and run by somebody honest is refuted",
    /// What verifiers have checked stands, whatever the referee finds.
    ChecksOverrule: "what was checked stands against the referee" =>
        "an honest challenger never loses",
    /// A step that the challenger does not show counts against the provider.
    StepNotShown: "the challenger need not show the step" =>
        "an honest provider is never slashed",
    /// A move does not say which round it is for.
    MovesWithoutRound: "a repeated move counts in the next round" =>
        "an honest verifier never loses, and is paid",
    /// An objection that is lost shows that the item is right.
    LostDisputeChecks: "a lost objection counts as a check" =>
        "what nobody answered is not upheld",
    /// An objection that is lost takes all others to the same item with it.
    FirstObjectorOnly: "a lost objection ends all others" =>
        "what is false and run by somebody honest is refuted",
    /// The share of the verifiers in a slash is divided among all that were drawn.
    EveryVerifierShares: "all drawn verifiers share a slash" =>
        "only the finder shares in a slash",
    /// Whoever objected to what was refuted earns a fee, heard or not.
    EveryObjectorPaid: "every objector to what is refuted is paid" =>
        "a verifier that runs nothing gains nothing",
    /// Once the claim is at stake, not ten times.
    SmallStake: "the claim is at stake once" =>
        "false work that is found costs ten times its pay",
    /// Escrow of what is refuted is burned.
    EscrowBurned: "escrow of refuted work is burned" =>
        "a client gets its money back for what is refuted",
    /// Client and finder divide a slash, and no part of it is burned.
    NothingBurned: "no part of a slash is burned" =>
        "a slash burns more than the pay",
    /// Who audits again is drawn for what is open already.
    OpenedAuditedAgain: "an opened leaf is audited again" =>
        "a verifier that runs nothing gains nothing",
    /// What the one who audits again was not served does not count.
    AgainNotPosted: "what is not served to who audits again is not posted" =>
        "what is false and drawn for somebody honest is not upheld",
    /// What a second audit leaves unchecked ends without a verdict.
    AgainDecides: "silence of who audits again takes the pay" =>
        "honest work is paid",
    /// Who agreed to what is refuted loses a pledge, whatever it is.
    AgreementsForfeited: "agreeing to what is refuted costs a pledge" =>
        "an honest verifier never loses, and is paid",
    /// Fees of verifiers come from nowhere.
    FeesMinted: "verifiers are not paid out of the pay" =>
        "money is conserved",
}
