@extends('layout')
@section('title', 'Form')
@section('content')
@if (session('notice'))
<p>{{ session('notice') }}</p>
@endif
@foreach ($errors->all() as $error)
<p class="error">{{ $error }}</p>
@endforeach
<form method="post" action="/form">
@csrf
<input name="name" value="{{ old('name', 'nobody') }}">
</form>
@endsection
