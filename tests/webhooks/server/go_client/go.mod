module client

go 1.24
