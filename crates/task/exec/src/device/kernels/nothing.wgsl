// Does nothing, so that only the way to the device and back is measured.

@compute @workgroup_size(1)
fn main() {}
