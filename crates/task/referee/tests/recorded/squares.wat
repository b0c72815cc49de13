;; Adds the squares of the numbers of its steps to the eight bytes of its input, whose first byte says how
;; many steps there are, and emits the last byte of every sum up to seven hundred times.
(module
  (memory (export "memory") 1)
  (global $count (mut i32) (i32.const 0))
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func $same (export "init") (param $place i32) (param $length i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $place)) (i64.const 32))
            (i64.extend_i32_u (local.get $length))))
  (func (export "steps") (param $place i32) (param $length i32) (result i64)
    (i64.load8_u (local.get $place)))
  (func (export "step") (param $place i32) (param $length i32) (param $number i64) (result i64)
    (i64.store (local.get $place)
      (i64.add (i64.load (local.get $place))
               (i64.mul (local.get $number) (local.get $number))))
    (global.set $count
      (i32.mul (i32.and (i32.wrap_i64 (local.get $number)) (i32.const 7)) (i32.const 100)))
    (memory.fill (i32.const 2048) (i32.load8_u (local.get $place)) (global.get $count))
    (call $same (local.get $place) (local.get $length)))
  (func (export "emitted") (result i64) (call $same (i32.const 2048) (global.get $count)))
  (func (export "finish") (param $place i32) (param $length i32) (result i64)
    (call $same (local.get $place) (local.get $length))))
