<!DOCTYPE html>
<html lang="{{ app()->getLocale() }}">
<head><title>Wombats</title></head>
<body>
<h1>Wombats for visitor {{ $visitor }}</h1>
<table>
@foreach ($products as $product)
<tr><td>{{ $product->id }}</td><td>{{ $product->name }}</td><td>{{ number_format($product->price / 100, 2) }}</td></tr>
@endforeach
</table>
<a href="{{ url('/') }}">Home</a>
</body>
</html>
