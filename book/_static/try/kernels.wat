;; The arithmetic of "Try it" in WebAssembly, four numbers at a time. All are
;; 32-bit floats; every address and step is in bytes. kernels.js calls it, and
;; has the same in JavaScript. `python tools/wat.py` assembles it.
(module
  (memory (export "memory") 1)

  ;; y[i, j] = start[j] + sum over k of a[i, k] b[k, j], for i < m, j < n and
  ;; k < c; n is 4 at least. The numbers of a row of b, start and y stand side
  ;; by side, and rows `bs` and `ys` apart; a's may stand any way, `as` from row
  ;; to row and `ak` from k to k. So a can be read as its own transpose.
  ;;
  ;; In tiles of four rows and eight columns, whose sums stay in registers. At
  ;; an edge a tile steps back, and writes some numbers again.
  (func $product (export "product")
    (param $y $ys $a $as $ak $b $bs $start $m $n $c i32)
    (local $i $j $j0 $j1 $k $a0 $a1 $a2 $a3 $b0 $b1 $last i32)
    (local $A $B0 $B1 v128)
    (local $s00 $s01 $s10 $s11 $s20 $s21 $s30 $s31 v128)
    (local.set $last (i32.sub (local.get $m) (i32.const 1)))
    (local.set $n (i32.shl (local.get $n) (i32.const 2)))
    (block $rows_done (loop $rows
      (br_if $rows_done (i32.gt_s (local.get $i) (local.get $last)))
      (local.set $j (i32.const 0))
      (loop $columns
        (local.set $j0 (call $least (local.get $j)
          (i32.sub (local.get $n) (i32.const 16))))
        (local.set $j1 (call $least
          (i32.add (local.get $j) (i32.const 16))
          (i32.sub (local.get $n) (i32.const 16))))
        (local.set $a0 (call $row (local.get $a) (local.get $as)
          (local.get $i) (i32.const 0) (local.get $last)))
        (local.set $a1 (call $row (local.get $a) (local.get $as)
          (local.get $i) (i32.const 1) (local.get $last)))
        (local.set $a2 (call $row (local.get $a) (local.get $as)
          (local.get $i) (i32.const 2) (local.get $last)))
        (local.set $a3 (call $row (local.get $a) (local.get $as)
          (local.get $i) (i32.const 3) (local.get $last)))
        (local.set $b0 (i32.add (local.get $b) (local.get $j0)))
        (local.set $b1 (i32.add (local.get $b) (local.get $j1)))
        (local.set $s00
          (v128.load (i32.add (local.get $start) (local.get $j0))))
        (local.set $s01
          (v128.load (i32.add (local.get $start) (local.get $j1))))
        (local.set $s10 (local.get $s00)) (local.set $s11 (local.get $s01))
        (local.set $s20 (local.get $s00)) (local.set $s21 (local.get $s01))
        (local.set $s30 (local.get $s00)) (local.set $s31 (local.get $s01))
        (local.set $k (local.get $c))
        (loop $sum
          (local.set $B0 (v128.load (local.get $b0)))
          (local.set $B1 (v128.load (local.get $b1)))
          (local.set $A (v128.load32_splat (local.get $a0)))
          (local.set $s00 (f32x4.add (local.get $s00)
            (f32x4.mul (local.get $A) (local.get $B0))))
          (local.set $s01 (f32x4.add (local.get $s01)
            (f32x4.mul (local.get $A) (local.get $B1))))
          (local.set $A (v128.load32_splat (local.get $a1)))
          (local.set $s10 (f32x4.add (local.get $s10)
            (f32x4.mul (local.get $A) (local.get $B0))))
          (local.set $s11 (f32x4.add (local.get $s11)
            (f32x4.mul (local.get $A) (local.get $B1))))
          (local.set $A (v128.load32_splat (local.get $a2)))
          (local.set $s20 (f32x4.add (local.get $s20)
            (f32x4.mul (local.get $A) (local.get $B0))))
          (local.set $s21 (f32x4.add (local.get $s21)
            (f32x4.mul (local.get $A) (local.get $B1))))
          (local.set $A (v128.load32_splat (local.get $a3)))
          (local.set $s30 (f32x4.add (local.get $s30)
            (f32x4.mul (local.get $A) (local.get $B0))))
          (local.set $s31 (f32x4.add (local.get $s31)
            (f32x4.mul (local.get $A) (local.get $B1))))
          (local.set $a0 (i32.add (local.get $a0) (local.get $ak)))
          (local.set $a1 (i32.add (local.get $a1) (local.get $ak)))
          (local.set $a2 (i32.add (local.get $a2) (local.get $ak)))
          (local.set $a3 (i32.add (local.get $a3) (local.get $ak)))
          (local.set $b0 (i32.add (local.get $b0) (local.get $bs)))
          (local.set $b1 (i32.add (local.get $b1) (local.get $bs)))
          (br_if $sum (local.tee $k
            (i32.sub (local.get $k) (i32.const 1)))))
        (local.set $a0 (call $row (local.get $y) (local.get $ys)
          (local.get $i) (i32.const 0) (local.get $last)))
        (local.set $a1 (call $row (local.get $y) (local.get $ys)
          (local.get $i) (i32.const 1) (local.get $last)))
        (local.set $a2 (call $row (local.get $y) (local.get $ys)
          (local.get $i) (i32.const 2) (local.get $last)))
        (local.set $a3 (call $row (local.get $y) (local.get $ys)
          (local.get $i) (i32.const 3) (local.get $last)))
        (v128.store (i32.add (local.get $a0) (local.get $j0))
          (local.get $s00))
        (v128.store (i32.add (local.get $a0) (local.get $j1))
          (local.get $s01))
        (v128.store (i32.add (local.get $a1) (local.get $j0))
          (local.get $s10))
        (v128.store (i32.add (local.get $a1) (local.get $j1))
          (local.get $s11))
        (v128.store (i32.add (local.get $a2) (local.get $j0))
          (local.get $s20))
        (v128.store (i32.add (local.get $a2) (local.get $j1))
          (local.get $s21))
        (v128.store (i32.add (local.get $a3) (local.get $j0))
          (local.get $s30))
        (v128.store (i32.add (local.get $a3) (local.get $j1))
          (local.get $s31))
        (local.set $j (i32.add (local.get $j) (i32.const 32)))
        (br_if $columns (i32.lt_s (local.get $j) (local.get $n))))
      (local.set $i (i32.add (local.get $i) (i32.const 4)))
      (br $rows))))

  (func $least (param $x $y i32) (result i32)
    (select (local.get $x) (local.get $y)
      (i32.lt_s (local.get $x) (local.get $y))))

  ;; The address of row i + more, or of the last one.
  (func $row (param $at $step $i $more $last i32) (result i32)
    (i32.add (local.get $at) (i32.mul (local.get $step)
      (call $least (i32.add (local.get $i) (local.get $more))
        (local.get $last)))))

  ;; e to the power of each: 2^n times a polynomial of what remains.
  (func $exp (param $x v128) (result v128)
    (local $n $p v128)
    (local.set $x (f32x4.max (local.get $x) (f32x4.splat (f32.const -87))))
    (local.set $n (f32x4.nearest (f32x4.mul (local.get $x)
      (f32x4.splat (f32.const 1.44269504)))))
    (local.set $x (f32x4.sub (local.get $x) (f32x4.mul (local.get $n)
      (f32x4.splat (f32.const 0.693359375))))) ;; ln 2 in two parts
    (local.set $x (f32x4.add (local.get $x) (f32x4.mul (local.get $n)
      (f32x4.splat (f32.const 2.12194440e-4)))))
    (local.set $p (f32x4.splat (f32.const 1.3888889e-3))) ;; 1 / 6!
    (local.set $p (f32x4.add (f32x4.splat (f32.const 8.3333333e-3))
      (f32x4.mul (local.get $p) (local.get $x))))
    (local.set $p (f32x4.add (f32x4.splat (f32.const 4.1666667e-2))
      (f32x4.mul (local.get $p) (local.get $x))))
    (local.set $p (f32x4.add (f32x4.splat (f32.const 0.16666667))
      (f32x4.mul (local.get $p) (local.get $x))))
    (local.set $p (f32x4.add (f32x4.splat (f32.const 0.5))
      (f32x4.mul (local.get $p) (local.get $x))))
    (local.set $p (f32x4.add (f32x4.splat (f32.const 1))
      (f32x4.mul (local.get $p) (local.get $x))))
    (local.set $p (f32x4.add (f32x4.splat (f32.const 1))
      (f32x4.mul (local.get $p) (local.get $x))))
    (f32x4.mul (local.get $p) (i32x4.shl (i32x4.add
      (v128.const i32x4 127 127 127 127)
      (i32x4.trunc_sat_f32x4_s (local.get $n))) (i32.const 23))))

  ;; Each of `rows` rows of n numbers to positive shares that sum to 1, in
  ;; place. The rows are `step` apart, a multiple of 16: up to three numbers
  ;; behind a row's end become 0.
  (func $softmax (export "softmax") (param $x $step $rows $n i32)
    (local $at $end i32)
    (local $most $sum $bound $place v128)
    (local $scale f32)
    (local.set $bound (f32x4.splat (f32.convert_i32_s (local.get $n))))
    (loop $each
      (local.set $end (i32.add (local.get $x)
        (i32.shl (local.get $n) (i32.const 2))))
      ;; what is behind the end is far below all
      (local.set $most (f32x4.splat (f32.const -1e30)))
      (local.set $place (v128.const f32x4 0 1 2 3))
      (local.set $at (local.get $x))
      (loop $highest
        (v128.store (local.get $at) (v128.bitselect
          (v128.load (local.get $at)) (f32x4.splat (f32.const -1e30))
          (f32x4.lt (local.get $place) (local.get $bound))))
        (local.set $most (f32x4.max (local.get $most)
          (v128.load (local.get $at))))
        (local.set $place (f32x4.add (local.get $place)
          (f32x4.splat (f32.const 4))))
        (local.set $at (i32.add (local.get $at) (i32.const 16)))
        (br_if $highest (i32.lt_s (local.get $at) (local.get $end))))
      (local.set $most (f32x4.splat (f32.max
        (f32.max (f32x4.extract_lane 0 (local.get $most))
          (f32x4.extract_lane 1 (local.get $most)))
        (f32.max (f32x4.extract_lane 2 (local.get $most))
          (f32x4.extract_lane 3 (local.get $most))))))
      (local.set $sum (f32x4.splat (f32.const 0)))
      (local.set $at (local.get $x))
      (loop $power
        (v128.store (local.get $at) (call $exp (f32x4.sub
          (v128.load (local.get $at)) (local.get $most))))
        (local.set $sum (f32x4.add (local.get $sum)
          (v128.load (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const 16)))
        (br_if $power (i32.lt_s (local.get $at) (local.get $end))))
      (local.set $scale (f32.div (f32.const 1) (f32.add
        (f32.add (f32x4.extract_lane 0 (local.get $sum))
          (f32x4.extract_lane 1 (local.get $sum)))
        (f32.add (f32x4.extract_lane 2 (local.get $sum))
          (f32x4.extract_lane 3 (local.get $sum))))))
      (local.set $at (local.get $x))
      (loop $share
        (v128.store (local.get $at) (f32x4.mul
          (v128.load (local.get $at)) (f32x4.splat (local.get $scale))))
        (local.set $at (i32.add (local.get $at) (i32.const 16)))
        (br_if $share (i32.lt_s (local.get $at) (local.get $end))))
      (local.set $x (i32.add (local.get $x) (local.get $step)))
      (br_if $each (local.tee $rows
        (i32.sub (local.get $rows) (i32.const 1))))))

  ;; y = x Phi(x) and its slope, of n numbers, in fours. Phi is one minus half
  ;; the tail of Abramowitz and Stegun, 7.1.26, right to 1.5e-7.
  (func $gelu (export "gelu") (param $y $slope $x $n i32)
    (local $v $power $t $phi v128)
    (loop $each
      (local.set $v (v128.load (local.get $x)))
      (local.set $power (call $exp (f32x4.mul (f32x4.splat (f32.const -0.5))
        (f32x4.mul (local.get $v) (local.get $v)))))
      (local.set $t (f32x4.div (f32x4.splat (f32.const 1))
        (f32x4.add (f32x4.splat (f32.const 1)) (f32x4.mul
          (f32x4.splat (f32.const 0.23164189)) ;; 0.3275911 / sqrt(2)
          (f32x4.abs (local.get $v))))))
      (local.set $phi (f32x4.splat (f32.const 0.530702715))) ;; half of each
      (local.set $phi (f32x4.add (f32x4.splat (f32.const -0.7265760135))
        (f32x4.mul (local.get $phi) (local.get $t))))
      (local.set $phi (f32x4.add (f32x4.splat (f32.const 0.7107068705))
        (f32x4.mul (local.get $phi) (local.get $t))))
      (local.set $phi (f32x4.add (f32x4.splat (f32.const -0.142248368))
        (f32x4.mul (local.get $phi) (local.get $t))))
      (local.set $phi (f32x4.add (f32x4.splat (f32.const 0.127414796))
        (f32x4.mul (local.get $phi) (local.get $t))))
      (local.set $phi (f32x4.mul (f32x4.mul (local.get $phi) (local.get $t))
        (local.get $power)))
      (local.set $phi (v128.bitselect (local.get $phi)
        (f32x4.sub (f32x4.splat (f32.const 1)) (local.get $phi))
        (f32x4.lt (local.get $v) (f32x4.splat (f32.const 0)))))
      (v128.store (local.get $y) (f32x4.mul (local.get $v) (local.get $phi)))
      (v128.store (local.get $slope) (f32x4.add (local.get $phi)
        (f32x4.mul (f32x4.mul (local.get $v) (local.get $power))
          (f32x4.splat (f32.const 0.39894228))))) ;; 1 / sqrt(2 pi)
      (local.set $x (i32.add (local.get $x) (i32.const 16)))
      (local.set $y (i32.add (local.get $y) (i32.const 16)))
      (local.set $slope (i32.add (local.get $slope) (i32.const 16)))
      (br_if $each (i32.gt_s (local.tee $n
        (i32.sub (local.get $n) (i32.const 4))) (i32.const 0)))))
)
