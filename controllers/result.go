package controllers

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
)

// resultOf classifies an error, once for all controllers: a conflict means that the cache is behind, and the object's
// next event brings another look; anything else is retried with the queue's backoff.
func resultOf(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}
