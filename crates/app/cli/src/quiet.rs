//! Drivers without a desktop: what they would say about it on stderr is not said.
//!
//! A layer of Mesa asks the compositor of a desktop which GPU comes first, whenever devices are
//! listed. Where there is no desktop, the library that it asks with complains on stderr. The order of
//! devices is our own in any case, so the layer is switched off there; only a variable does that.

/// Without this variable there is no compositor to ask.
const DESKTOP: &str = "XDG_RUNTIME_DIR";
/// What switches the layer off.
const NO_LAYER: &str = "NODEVICE_SELECT";

/// Switches the layer off where there is no desktop. `main` does it before any thread of ours is
/// started.
pub(crate) fn without_a_desktop() {
    if std::env::var_os(DESKTOP).is_some() {
        return;
    }
    // SAFETY: `main` has started no thread yet, and the allocator's own never reads the environment.
    #[expect(unsafe_code, reason = "drivers are told by the environment alone")]
    unsafe {
        std::env::set_var(NO_LAYER, "1");
    }
}
