<!DOCTYPE html>
<html lang="{{ app()->getLocale() }}">
<head><title>@yield('title') - {{ config('app.name') }}</title></head>
<body>
@auth
<p>You are {{ auth()->id() }}.</p>
@endauth
@yield('content')
</body>
</html>
