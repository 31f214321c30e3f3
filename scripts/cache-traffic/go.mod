module svc/cache-traffic

go 1.25.0
