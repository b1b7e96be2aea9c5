// Package storetest holds what every storage.Store must do. A store's own tests
// call Run, and Model for long random histories against a model.
package storetest
