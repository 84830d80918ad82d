"use strict";
// zerocross.filters for the browser: the same names, the same algorithms, the same numbers (the tests compare them). A filter is a list of sections [b0, b1, b2, 1, a1, a2], as in scipy.
const filters = (() => {
  const INTEGRATE = [[1, 0, 0, 1, -1, 0]];

  const ema = (alpha) => [[alpha, 0, 0, 1, -(1 - alpha), 0]]; // Eq. 15
  const cascade = (...parts) => parts.flat(); // Eq. 16
  const firstOrder = (gain, pole) => [[gain, 0, 0, 1, -pole, 0]];

  // The two discounts (1 - pole) with this sum and product; small ones keep full precision.
  function discountPair(total, product) {
    const spread = (total * total) / 4 - product;
    if (spread < -4 * Number.EPSILON * Math.abs(total)) {
      const im = Math.sqrt(-spread);
      return [{ re: total / 2, im: -im }, { re: total / 2, im }];
    }
    const large = total / 2 + Math.sign(total) * Math.sqrt(Math.max(spread, 0));
    return [{ re: large ? product / large : 0, im: 0 }, { re: large, im: 0 }];
  }

  // The filter that torch.optim.SGD implements at a constant lr.
  function fromSgd(lr, momentum, weightDecay) {
    const decay = lr * weightDecay;
    if (momentum === 0) return firstOrder(lr, 1 - decay);
    const total = 1 - momentum + decay;
    const [alpha, gamma] = discountPair(total, decay);
    if (alpha.im) return [[lr, 0, 0, 1, total - 2, 1 - total + decay]];
    return cascade(firstOrder(lr, 1 - gamma.re), firstOrder(1, 1 - alpha.re));
  }

  const toSgd = (alpha, gamma, lr) => ({ lr, momentum: (1 - alpha) * (1 - gamma), weightDecay: (alpha * gamma) / lr });

  // 1 - pole of every pole, slowest first.
  function discounts(filt) {
    const found = filt.flatMap(([, , , , a1, a2]) => {
      if (a2) return discountPair(2 + a1, 1 + a1 + a2);
      return a1 ? [{ re: 1 + a1, im: 0 }] : [];
    });
    return found.sort((u, v) => Math.hypot(u.re, u.im) - Math.hypot(v.re, v.im));
  }

  const moduli = (filt) => discounts(filt).map(({ re, im }) => Math.hypot(1 - re, im));

  // { alpha, gamma }, or null if the poles are complex.
  function alphaGamma(filt) {
    const found = discounts(filt);
    if (found.some(({ im }) => im)) return null;
    const [alpha, gamma] = [...found.map(({ re }) => re), 1, 1].slice(0, 2).sort((u, v) => u - v);
    return { alpha, gamma };
  }

  function stability(filt) {
    const excess = moduli(filt).map((modulus) => modulus - 1);
    const near = 4 * Number.EPSILON;
    const kept = excess.filter((each) => Math.abs(each) <= near).length;
    if (excess.some((each) => each > near) || kept > 1) return "unstable";
    return kept ? "integrator" : "stable";
  }

  const total = (numbers) => numbers.reduce((sum, each) => sum + each, 0);

  function dcGain(filt) {
    return filt.reduce((gain, row) => (gain * total(row.slice(0, 3))) / total(row.slice(3)), 1);
  }

  // v' = A v + B x, y = C v + D x.
  function stateSpace(filt) {
    const n = 2 * filt.length;
    const A = Array.from({ length: n }, () => new Array(n).fill(0));
    const B = new Array(n).fill(0);
    let C = new Array(n).fill(0);
    let D = 1;
    filt.forEach(([b0, b1, b2, , a1, a2], i) => {
      const feed = [b1 - a1 * b0, b2 - a2 * b0];
      for (const j of [0, 1]) {
        A[2 * i + j] = C.map((c) => feed[j] * c);
        A[2 * i + j][2 * i] = j ? -a2 : -a1;
        A[2 * i + j][2 * i + 1] = j ? 0 : 1;
        B[2 * i + j] = feed[j] * D;
      }
      C = C.map((c) => c * b0);
      D *= b0;
      C[2 * i] = 1;
    });
    return { A, B, C, D };
  }

  const dot = (u, v) => total(u.map((each, i) => each * v[i]));
  const multiply = (M, N) => M.map((row) => N[0].map((_, j) => total(row.map((each, k) => each * N[k][j]))));
  const transpose = (M) => M[0].map((_, j) => M.map((row) => row[j]));

  // n -> h_n, in O(log n) operations.
  function tapper(filt) {
    const { A, B, C, D } = stateSpace(filt);
    const powers = [A]; // A to the 1, 2, 4, ...
    return (n) => {
      if (n === 0) return D;
      let v = B;
      for (let rest = n - 1, k = 0; rest > 0; rest = Math.floor(rest / 2), k += 1) {
        if (k === powers.length) powers.push(multiply(powers[k - 1], powers[k - 1]));
        if (rest % 2) v = powers[k].map((row) => dot(row, v));
      }
      return dot(C, v);
    };
  }

  const impulseResponse = (filt, steps) => steps.map(tapper(filt));

  // Modulus of the gain at frequencies in cycles per step.
  function frequencyResponse(filt, frequencies) {
    const modulus2 = ([c0, c1, c2], w) => {
      const re = c0 + c1 * Math.cos(w) + c2 * Math.cos(2 * w);
      const im = c1 * Math.sin(w) + c2 * Math.sin(2 * w);
      return re * re + im * im;
    };
    return frequencies.map((f) => {
      const w = 2 * Math.PI * f;
      return filt.reduce((gain, row) => gain * Math.sqrt(modulus2(row.slice(0, 3), w) / modulus2(row.slice(3), w)), 1);
    });
  }

  // True if all taps have the same sign. Filters of this page have b1 = b2 = 0, so that the poles decide.
  const oneSigned = (filt) => discounts(filt).every(({ re, im }) => !im && re <= 1);

  // Number of taps after which the rest is negligible.
  function horizon(filt) {
    const largest = Math.max(0, ...moduli(filt));
    const order = discounts(filt).length;
    return order + 1 + (largest ? Math.ceil((40 + 10 * order) / -Math.log(largest)) : 0);
  }

  function counted(filt) {
    return apply(filt, Float64Array.from({ length: horizon(filt) }, (_, i) => (i ? 0 : 1)));
  }

  // n -> share of the response, in absolute value, within the newest n steps.
  function sharer(filt) {
    if (oneSigned(filt)) {
      const tap = tapper(cascade(filt, INTEGRATE));
      const all = dcGain(filt);
      return (n) => tap(n - 1) / all;
    }
    let sum = 0;
    const held = counted(filt).map((h) => (sum += Math.abs(h)));
    return (n) => held[Math.min(n, held.length) - 1] / sum;
  }

  // The smallest n >= 1 at which an increasing function reaches a value.
  function firstStep(rising, value) {
    let low = 0;
    let high = 1;
    while (!(rising(high) >= value)) [low, high] = [high, 2 * high];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (rising(middle) >= value) high = middle;
      else low = middle;
    }
    return high;
  }

  const window = (filt, share = 0.95) => (stability(filt) === "stable" ? firstStep(sharer(filt), share) : Infinity);

  function reversal(filt) {
    if (stability(filt) !== "stable") return Infinity;
    if (oneSigned(filt)) return firstStep(sharer(filt), 0.5);
    let sum = 0;
    const half = dcGain(filt) / 2;
    return counted(filt).findIndex((h) => (sum += h) >= half) + 1;
  }

  function meanDelay(filt) {
    if (stability(filt) !== "stable") return Infinity;
    const centre = ([c0, c1, c2]) => (c1 + 2 * c2) / (c0 + c1 + c2);
    return total(filt.map((row) => centre(row.slice(0, 3)) - centre(row.slice(3))));
  }

  function halfLife(filt) {
    if (stability(filt) !== "stable") return Infinity;
    const largest = Math.max(0, ...moduli(filt));
    return largest ? Math.LN2 / -Math.log(largest) : 0;
  }

  // Sum of squared taps, computed by doubling.
  function energy(filt) {
    let { A, B, C, D } = stateSpace(filt);
    let P = B.map((u) => B.map((v) => u * v));
    while (Math.hypot(...A.flat()) > 1e-9) {
      const grown = multiply(multiply(A, P), transpose(A));
      P = P.map((row, i) => row.map((each, j) => each + grown[i][j]));
      A = multiply(A, A);
    }
    return dot(C, P.map((row) => dot(row, C))) + D * D;
  }

  const noiseGain = (filt) => (stability(filt) === "stable" ? energy(filt) / dcGain(filt) ** 2 : Infinity);

  function flipRate(filt) {
    const kind = stability(filt);
    if (kind !== "stable") return kind === "integrator" ? 0 : NaN;
    const [[b0, b1, b2, a0, a1, a2], ...rest] = filt;
    const difference = [[b0, b1, b2, 1, 0, 0], [1, -1, 0, a0, a1, a2], ...rest];
    return (2 * Math.asin(Math.min(1, Math.sqrt(energy(difference) / energy(filt)) / 2))) / Math.PI;
  }

  function describe(filt) {
    return {
      stability: stability(filt),
      meanDelay: meanDelay(filt),
      window: window(filt),
      halfLife: halfLife(filt),
      reversal: reversal(filt),
      noiseGain: noiseGain(filt),
      flipRate: flipRate(filt),
    };
  }

  // Filter gradients from a zero start, like scipy's sosfilt.
  function apply(filt, x) {
    return filt.reduce((input, [b0, b1, b2, , a1, a2]) => {
      let s1 = 0;
      let s2 = 0;
      return input.map((u) => {
        const y = b0 * u + s1;
        s1 = b1 * u - a1 * y + s2;
        s2 = b2 * u - a2 * y;
        return y;
      });
    }, x);
  }

  // The binary weight after each update: minus the sign of the output; an output of exactly 0 keeps the weight.
  function weights(filt, gradients) {
    let theta = 0;
    return apply(filt, gradients).map((y) => (theta = y === 0 ? theta : -Math.sign(y)));
  }

  // The updates (from 1) at which the weight flipped; its first sign does not count as a flip.
  function flips(filt, gradients) {
    const theta = weights(filt, gradients);
    return theta.flatMap((each, i) => (i && theta[i - 1] && each !== theta[i - 1] ? [i + 1] : []));
  }

  return {
    ema, cascade, fromSgd, toSgd, alphaGamma, dcGain, stability, impulseResponse, frequencyResponse, sharer, window,
    reversal, meanDelay, halfLife, noiseGain, flipRate, describe, apply, weights, flips,
  };
})();
