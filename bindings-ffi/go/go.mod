module github.com/callweir/callweir/bindings-ffi/go

go 1.24
