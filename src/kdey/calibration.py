"""Calibrators: maps from posteriors to better calibrated posteriors.

All but Platt's are the family of Alexandari, Kundaje and Shrikumar ("Maximum likelihood with
bias-corrected calibration is hard-to-beat at label shift adaptation", ICML 2020):

    q = softmax(scale * z + bias),   z_i = log p_i - mean_l log p_l,

fitted by minimising the weighted mean log-loss -sum_j w_j log q_{j, y_j} / sum_j w_j over
scale >= 0 and bias. The loss is convex in these parameters (but not in the temperature 1 / scale).
Centring z makes a difference only if each class has its own scale. Posteriors are floored before
the logarithm, so exact zeros and ones are allowed.

=================== =================== =========
calibrator          scale               bias
=================== =================== =========
TemperatureScaling  one for all classes none
BCTS                one for all classes per class
VectorScaling       per class           per class
NoBiasVectorScaling per class           none
=================== =================== =========
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kdey._display import warn
from kdey.simplex import check_posteriors, row_sums, softmax_rows
from kdey.validation import check_weights, for_numpy

Array = NDArray[np.float64]

#: Objective, gradient (d,) and Hessian (d, d) at a point (d,).
Evaluate: TypeAlias = Callable[[Array], tuple[float, Array, Array]]
#: Where a minimisation ended: the point (d,), the objective there, the number of iterations, and
#: whether the last step promised to lower it by less than the tolerance, or it was low enough.
Minimum: TypeAlias = tuple[Array, float, int, bool]

#: Smallest posterior in a logarithm, whose log is -27.6. Near it the floating-point posteriors of a
#: logistic model can no longer be distinguished from zero and one.
LOG_FLOOR = 1e-12
#: A mean log-loss this small means that the classes are separable and the scale would diverge.
SEPARABLE_LOSS = 1e-6
#: Distance from a bound, in parameter units, that counts as being at it.
_AT_BOUND = 1e-6
#: Share of the largest curvature that is added to every curvature. Steps of singular problems are
#: then (nearly) the shortest ones, and directions that the objective ignores keep their start.
_RIDGE = 1e-12


class SeparableWarning(UserWarning):
    """Posteriors separate the classes without error, and calibration makes them zeros and ones."""


class Calibrator(TransformerMixin, BaseEstimator, ABC):
    """Base of the calibrators: their parameters, checks, and the two steps of a fit.

    Parameters
    ----------
    floor : float
        Smallest posterior in a logarithm; smaller ones are raised to it.
    tol : float
        Stop when a Newton step promises to lower the mean loss by less than this.
    max_iter : int

    Attributes
    ----------
    scale_ : array of shape (k,)
        Inverse temperature of each class.
    bias_ : array of shape (k,)
        Zeros if the calibrator has no bias.
    loss_ : float
        The minimised loss.
    converged_ : bool
    n_iter_ : int
    n_features_in_ : int
        Number of classes k.
    """

    def __init__(
        self, *, floor: float = LOG_FLOOR, tol: float = 1e-10, max_iter: int = 200
    ) -> None:
        self.floor = floor
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, P: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to held-out posteriors.

        Parameters
        ----------
        P : array-like of shape (n, k)
            Posteriors from a model that was not fitted on these instances.
        y : int array-like of shape (n,)
            Codes 0..k-1 of the true classes.
        sample_weight : array-like of shape (n,), optional
        """
        if not 0.0 < self.floor < 0.5:
            raise ValueError(f"floor must lie in (0, 0.5), got {self.floor!r}")
        p = np.asarray(check_posteriors(P, name="P"), dtype=np.float64)
        one_hot = _one_hot(y, p.shape)
        ones = np.ones(len(p))
        weights = ones if sample_weight is None else check_weights(sample_weight, len(p))
        point, self.loss_, self.n_iter_, self.converged_ = self._minimise(p, one_hot, weights)
        self.scale_, self.bias_ = self._unpack(point, p.shape[1])
        self.n_features_in_ = p.shape[1]
        if not self.converged_:
            message = f"{type(self).__name__} did not converge in {self.n_iter_} iterations"
            warn(message, ConvergenceWarning)
        if self.loss_ <= SEPARABLE_LOSS:
            message = "posteriors separate the classes without error: calibrated ones are 0 or 1"
            warn(message, SeparableWarning)
        return self

    def transform(self, P: ArrayLike) -> Array:
        """Return the calibrated posteriors of ``P``, both of shape (m, k)."""
        check_is_fitted(self)
        p = np.asarray(check_posteriors(P, self.n_features_in_, name="P"), dtype=np.float64)
        return self._calibrated(p)

    @abstractmethod
    def _minimise(self, p: Array, hot: Array, weights: Array) -> Minimum:
        """Minimise the loss for one-hot labels ``hot`` (n, k) and weights (n,)."""

    @abstractmethod
    def _unpack(self, theta: Array, k: int) -> tuple[Array, Array]:
        """Return the scale and the bias of each class."""

    @abstractmethod
    def _calibrated(self, p: Array) -> Array:
        """Apply the fitted map."""


class _SoftmaxScaling(Calibrator):
    """The softmax family of the module docstring; subclasses declare which parameters are free."""

    #: To which calibrated posteriors are raised before they are normalised.
    power: float = 1.0
    _shared_scale: bool
    _has_bias: bool

    def _minimise(self, p: Array, hot: Array, weights: Array) -> Minimum:
        k = p.shape[1]
        free = self._free(k)
        full = _softmax_loss(centred_logs(p, self.floor), hot, weights / weights.sum())

        def evaluate(theta: Array) -> tuple[float, Array, Array]:
            loss, gradient, hessian = full(free @ theta)
            return loss, free.T @ gradient, free.T @ hessian @ free

        is_scale = free[:k].any(axis=0)
        return projected_newton(
            evaluate,
            np.asarray(is_scale, dtype=np.float64),
            np.where(is_scale, 0.0, -np.inf),
            tol=self.tol,
            max_iter=self.max_iter,
            enough=SEPARABLE_LOSS,
        )

    def _unpack(self, theta: Array, k: int) -> tuple[Array, Array]:
        scale, bias = np.split(self._free(k) @ theta, 2)
        # A constant added to all biases does not change the loss; by convention they sum to zero.
        return scale, bias - bias.mean()

    def _free(self, k: int) -> Array:
        """Return the (2k, d) matrix from free parameters to all scales and biases."""
        scales = np.ones((k, 1)) if self._shared_scale else np.eye(k)
        biases = np.eye(k) if self._has_bias else np.empty((k, 0))
        return np.asarray(block_diag(scales, biases), dtype=np.float64)

    def transform_tensor(self, P: Any) -> Any:
        """As :meth:`transform`, for a torch tensor of checked posteriors, in float64."""
        check_is_fitted(self)
        logs = P.double().clamp(min=self.floor).log()
        z = logs - logs.mean(dim=1, keepdim=True)
        logits = z * logs.new_tensor(self.scale_) + logs.new_tensor(self.bias_)
        return (self.power * logits).softmax(dim=1)

    def _calibrated(self, p: Array) -> Array:
        z = centred_logs(p, self.floor)
        return softmax_rows(self.power * (z * self.scale_ + self.bias_))


class TemperatureScaling(_SoftmaxScaling):
    """Temperature scaling, ``softmax(scale * log p)`` (Guo et al., 2017)."""

    _shared_scale = True
    _has_bias = False


class BCTS(_SoftmaxScaling):
    """Bias-corrected temperature scaling, ``softmax(scale * log p + bias)``."""

    _shared_scale = True
    _has_bias = True


class SharpenedBCTS(BCTS):
    """BCTS whose calibrated posteriors are raised to a power and normalised.

    Posteriors that are slightly surer than calibrated ones give prevalences with less variance and
    a little bias, which can be the smaller error.

    Parameters
    ----------
    power : float
        One for BCTS itself.
    """

    def __init__(self, power: float = 1.0) -> None:
        super().__init__()
        self.power = power


class VectorScaling(_SoftmaxScaling):
    """Vector scaling, ``softmax(scale_i z_i + bias_i)`` (Guo et al., 2017)."""

    _shared_scale = False
    _has_bias = True


class NoBiasVectorScaling(_SoftmaxScaling):
    """Vector scaling without bias, ``softmax(scale_i z_i)``."""

    _shared_scale = False
    _has_bias = False


class PlattScaling(Calibrator):
    """Platt scaling: a sigmoid of the log-odds for each class, with rows normalised afterwards.

    ``q_i`` is proportional to ``sigmoid(scale_i log(p_i / (1 - p_i)) + bias_i)``, each class
    fitted against the rest by the log-loss to the smoothed targets (n_in + 1) / (n_in + 2) inside
    the class and 1 / (n_out + 2) outside it (Platt, 1999; n_in and n_out are sums of weights).
    With two classes both fits are the same and the normalisation does nothing. ``loss_`` is the
    sum of the k losses.
    """

    def _minimise(self, p: Array, hot: Array, weights: Array) -> Minimum:
        k = p.shape[1]
        inside = weights @ hot
        outside = weights.sum() - inside
        target = np.where(hot > 0, (inside + 1.0) / (inside + 2.0), 1.0 / (outside + 2.0))
        evaluate = _sigmoid_losses(log_odds(p, self.floor), target, weights / weights.sum())
        start = np.concatenate([np.ones(k), np.zeros(k)])
        lower = np.full(2 * k, -np.inf)
        return projected_newton(evaluate, start, lower, tol=self.tol, max_iter=self.max_iter)

    def _unpack(self, theta: Array, k: int) -> tuple[Array, Array]:
        return theta[:k], theta[k:]

    def _calibrated(self, p: Array) -> Array:
        # A softmax of logarithms, because sigmoids that underflow still have a ratio.
        t = log_odds(p, self.floor) * self.scale_ + self.bias_
        return np.asarray(softmax(log_expit(t), axis=1))


CALIBRATORS: Mapping[str, type[Calibrator]] = MappingProxyType(
    {
        "platt": PlattScaling,
        "temperature": TemperatureScaling,
        "ts": TemperatureScaling,
        "bcts": BCTS,
        "vector": VectorScaling,
        "vs": VectorScaling,
        "nbvs": NoBiasVectorScaling,
    }
)


def make_calibrator(calibration: Any) -> Any:
    """Return an unfitted calibrator.

    Parameters
    ----------
    calibration : str or object with ``fit`` and ``transform``
        A name from ``CALIBRATORS``, or a calibrator, which is cloned.

    Raises
    ------
    ValueError
        If ``calibration`` is neither.
    """
    if isinstance(calibration, str) and calibration in CALIBRATORS:
        return CALIBRATORS[calibration]()
    is_instance = not isinstance(calibration, str | type)
    if is_instance and hasattr(calibration, "fit") and hasattr(calibration, "transform"):
        return clone(calibration)
    raise ValueError(
        f"calibration must be one of {', '.join(CALIBRATORS)} or an object with fit and "
        f"transform, got {calibration!r}"
    )


def centred_logs(p: Array, floor: float = LOG_FLOOR) -> Array:
    """Return ``log max(p, floor)`` minus its mean over the classes, shape (m, k)."""
    logs = np.log(np.maximum(p, floor))
    logs -= row_sums(logs) / logs.shape[1]
    return np.asarray(logs)


def log_odds(p: Array, floor: float = LOG_FLOOR) -> Array:
    """Return ``log(p / (1 - p))`` of each entry, with p clipped to [floor, 1 - floor]."""
    clipped = np.clip(p, floor, 1.0 - floor)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def _softmax_loss(z: Array, hot: Array, weights: Array) -> Evaluate:
    """Return the multinomial log-loss as a function of k scales and k biases."""
    k = z.shape[1]
    w = weights[:, None]

    def evaluate(theta: Array) -> tuple[float, Array, Array]:
        logs = log_softmax(z * theta[:k] + theta[k:], axis=1)
        q = np.exp(logs)
        residual = w * (q - hot)
        gradient = np.concatenate([(residual * z).sum(axis=0), residual.sum(axis=0)])
        both = np.concatenate([q * z, q], axis=1)
        hessian = _paired_diagonals(w * q, z) - both.T @ (w * both)
        return -float((w * hot * logs).sum()), gradient, hessian

    return evaluate


def _sigmoid_losses(z: Array, target: Array, weights: Array) -> Evaluate:
    """Return the sum of k binary log-losses as a function of k scales and k biases."""
    k = z.shape[1]
    w = weights[:, None]

    def evaluate(theta: Array) -> tuple[float, Array, Array]:
        t = z * theta[:k] + theta[k:]
        q = expit(t)
        residual = w * (q - target)
        gradient = np.concatenate([(residual * z).sum(axis=0), residual.sum(axis=0)])
        loss = -w * (target * log_expit(t) + (1.0 - target) * log_expit(-t))
        return float(loss.sum()), gradient, _paired_diagonals(w * q * (1.0 - q), z)

    return evaluate


def _paired_diagonals(weights: Array, z: Array) -> Array:
    """Return the (2k, 2k) matrix of diagonals sum_j w z^2, w z (twice) and w of each class."""
    mixed = np.diag((weights * z).sum(axis=0))
    return np.block(
        [[np.diag((weights * z * z).sum(axis=0)), mixed], [mixed, np.diag(weights.sum(axis=0))]]
    )


def _one_hot(y: ArrayLike, shape: tuple[int, ...]) -> Array:
    codes = np.asarray(for_numpy(y, "y"))
    if codes.shape != shape[:1]:
        raise ValueError(f"y must have shape {shape[:1]}, one code per row of P, got {codes.shape}")
    if codes.dtype.kind not in "iu" or codes.min() < 0 or codes.max() >= shape[1]:
        raise ValueError(f"y must hold integer codes from 0 to {shape[1] - 1}")
    return np.asarray(np.eye(shape[1])[codes])


def projected_newton(
    evaluate: Evaluate,
    start: Array,
    lower: Array,
    *,
    tol: float,
    max_iter: int,
    enough: float = -math.inf,
) -> Minimum:
    """Minimise a convex function over ``point >= lower``, by Newton's method.

    The method is that of Bertsekas, "Projected Newton methods for optimization problems with simple
    constraints" (1982). Parameters that the gradient pushes against their bound take a scaled
    gradient step, all others take a Newton step, and the result is projected onto the bounds.

    Parameters
    ----------
    evaluate : callable
        Returns objective, gradient and Hessian at a point.
    start : float64 array of shape (d,)
        At or above ``lower``.
    lower : float64 array of shape (d,)
        -inf where a parameter is free.
    tol : float
        Stop when a step promises to lower the objective by less than this.
    max_iter : int
    enough : float
        Also stop once the objective is this low: for an infimum that is known but not attained.
    """
    # Values overflow far from the optimum or without curvature; such steps are not accepted.
    with np.errstate(over="ignore", invalid="ignore"):
        return _iterate(evaluate, np.maximum(start, lower), lower, tol, max_iter, enough)


def _iterate(
    evaluate: Evaluate, point: Array, lower: Array, tol: float, max_iter: int, enough: float
) -> Minimum:
    state = evaluate(point)
    for n_iter in range(1, max_iter + 1):
        direction = _direction(point, state[1], state[2], lower)
        decrease = _promised_decrease(point, state[1], state[2], direction, lower)
        moved = _line_search(evaluate, point, state, direction, lower)
        if moved is None:
            return point, state[0], n_iter, decrease <= tol
        point, state = moved
        if decrease <= tol or state[0] <= enough:
            return point, state[0], n_iter, True
    return point, state[0], max_iter, False


def _direction(point: Array, gradient: Array, hessian: Array, lower: Array) -> Array:
    curvature = np.diag(hessian)
    ridge = max(_RIDGE * float(curvature.max()), np.finfo(np.float64).tiny)
    free = (point > lower + _AT_BOUND) | (gradient <= 0)
    direction = -gradient / (curvature + ridge)
    inner = hessian[np.ix_(free, free)] + ridge * np.eye(int(free.sum()))
    direction[free] = -np.linalg.solve(inner, gradient[free])
    return direction


def _promised_decrease(
    point: Array, gradient: Array, hessian: Array, direction: Array, lower: Array
) -> float:
    """Return the decrease promised by the better of a Newton and a scaled gradient step.

    A Newton step that is cut off at the bounds may promise nothing far from the optimum. The
    gradient step promises nothing only if the optimality conditions hold.
    """
    slope = -gradient / np.maximum(np.diag(hessian), np.finfo(np.float64).tiny)
    steps = (np.maximum(point + step, lower) - point for step in (direction, slope))
    return max(-0.5 * float(gradient @ step) for step in steps)


def _line_search(
    evaluate: Evaluate,
    point: Array,
    state: tuple[float, Array, Array],
    direction: Array,
    lower: Array,
) -> tuple[Array, tuple[float, Array, Array]] | None:
    """Halve the step until the objective falls; return None if no step is good enough."""
    value, gradient, _ = state
    # A change within rounding is accepted, because the gradient is far more accurate.
    rounding = 8.0 * np.finfo(np.float64).eps * (1.0 + abs(value))
    size = 1.0
    for _ in range(60):
        moved = np.maximum(point + size * direction, lower)
        reached = evaluate(moved)
        if reached[0] <= value + 1e-4 * float(gradient @ (moved - point)) + rounding:
            return moved, reached
        size *= 0.5
    return None
