// Package kubeapi is a client of the API server for the kinds that Contiv uses. It exists because
// the clientset and the informers of client-go contain the types of every API group, which would be
// half of the code of each program that uses them.
package kubeapi
