@extends('layout')
@section('title', "Animals of $name")
@section('content')
<h1>{{ __('words.hello', ['name' => $name]) }}</h1>
<ul>
@foreach ($animals as $animal)
<li class="{{ $loop->even ? 'even' : 'odd' }}">{{ strtoupper($animal['name']) }}: {{ number_format($animal['weight'], 2) }} kg</li>
@endforeach
</ul>
@endsection
